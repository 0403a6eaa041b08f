"""What follows from changes between users: caches are forgotten, and timelines that exist are to be mended."""

import pytest
from fanout_service.events import EdgeChange, EraseWish, GraphEvent, Wish
from fanout_service.graph_events import GraphEvents

from .model import ModelCaches, ModelTimeline, ModelTimelines, ModelTopics, ModelTruth

VIC, WIM = 1, 2
ANN, BOB = 11, 12
FOLLOWED, UNFOLLOWED = EdgeChange.FOLLOWED, EdgeChange.UNFOLLOWED
MENDING = [FOLLOWED, UNFOLLOWED, EdgeChange.MUTED, EdgeChange.UNMUTED]


class Feed:
    """Graph events on models; Vic alone has a timeline."""

    def __init__(self, threshold: int = 1000) -> None:
        self.truth = ModelTruth(threshold=threshold)
        self.timelines = ModelTimelines(length=10)
        self.timelines.lists = {VIC: ModelTimeline(0, b"")}
        self.caches, self.topics = ModelCaches(self.timelines), ModelTopics()
        self.events = GraphEvents(self.caches, self.truth, self.topics)


@pytest.mark.parametrize("change", MENDING)
async def test_a_timeline_that_exists_is_to_be_mended(change: EdgeChange) -> None:
    feed = Feed()
    await feed.events.handle([GraphEvent(VIC, ANN, change), GraphEvent(VIC, BOB, change), GraphEvent(VIC, ANN, change)])
    assert feed.topics.wishes == [Wish(VIC, ANN), Wish(VIC, BOB)], "and each part of it once"


async def test_follow_and_unfollow_of_one_author_are_one_wish_because_the_truth_tells_which_stands() -> None:
    feed = Feed()
    await feed.events.handle([GraphEvent(VIC, ANN, change) for change in (FOLLOWED, UNFOLLOWED, FOLLOWED)])
    assert feed.topics.wishes == [Wish(VIC, ANN)]


@pytest.mark.parametrize("change", MENDING)
async def test_who_has_no_timeline_loses_their_context_and_nothing_is_wished_for(change: EdgeChange) -> None:
    feed = Feed()
    await feed.events.handle([GraphEvent(WIM, ANN, change)])
    assert feed.caches.contexts == {WIM}
    assert feed.topics.wishes == []


@pytest.mark.parametrize("change", [EdgeChange.MUTED, EdgeChange.UNMUTED])
async def test_a_mute_changes_what_is_hidden_from_who_mutes_alone(change: EdgeChange) -> None:
    feed = Feed()
    await feed.events.handle([GraphEvent(VIC, ANN, change), GraphEvent(WIM, ANN, FOLLOWED)])
    assert feed.caches.hidden == {VIC}
    assert feed.caches.contexts == {VIC, WIM}


@pytest.mark.parametrize("change", [EdgeChange.BLOCKED, EdgeChange.UNBLOCKED])
async def test_a_block_makes_both_forget_and_mends_nothing(change: EdgeChange) -> None:
    feed = Feed()
    await feed.events.handle([GraphEvent(VIC, ANN, change)])
    assert feed.caches.hidden == feed.caches.contexts == {VIC, ANN}
    assert feed.topics.wishes == [], "the follows that it ended have events of their own"


@pytest.mark.parametrize("change", [EdgeChange.FAVOURED, EdgeChange.UNFAVOURED])
async def test_a_favourite_changes_the_context_of_who_has_it_and_mends_nothing(change: EdgeChange) -> None:
    feed = Feed()
    feed.truth.deleted = {ANN}
    await feed.events.handle([GraphEvent(VIC, ANN, change)])
    assert feed.caches.contexts == {VIC}
    assert feed.caches.hidden == set()
    assert feed.topics.wishes == [], "whatever becomes of the author: the follow has events of its own"


async def test_pulled_authors_have_no_part_in_timelines() -> None:
    feed = Feed()
    feed.truth.index = {ANN: 1}
    await feed.events.handle([GraphEvent(VIC, ANN, FOLLOWED), GraphEvent(VIC, BOB, FOLLOWED)])
    assert feed.topics.wishes == [Wish(VIC, BOB)]
    assert feed.caches.contexts == {VIC}


async def test_of_a_pulled_author_who_was_deleted_nothing_stays_in_timelines() -> None:
    feed = Feed()
    feed.truth.index = {ANN: 1}
    feed.truth.deleted = {ANN}
    await feed.events.handle([GraphEvent(VIC, ANN, UNFOLLOWED)])
    assert feed.topics.wishes == [Wish(VIC, ANN)]


async def test_a_look_at_a_pulled_author_is_a_decision_of_which_leaving_hears() -> None:
    feed = Feed()
    feed.truth.index = {ANN: 1}
    await feed.events.handle([GraphEvent(WIM, ANN, FOLLOWED)])
    assert feed.truth.index == {ANN: 2}


async def test_the_follow_by_which_an_author_reaches_the_threshold_brings_their_posts() -> None:
    feed = Feed(threshold=1)
    feed.truth.follows[VIC] = {ANN}
    await feed.events.handle([GraphEvent(VIC, ANN, FOLLOWED)])
    assert feed.topics.wishes == [Wish(VIC, ANN)], "no timeline has been told yet that the author is pulled"
    assert feed.truth.index == {}


@pytest.mark.parametrize("change", [FOLLOWED, EdgeChange.MUTED])
async def test_what_leads_to_a_deleted_author_is_erased_once_more(change: EdgeChange) -> None:
    feed = Feed()
    feed.truth.deleted = {ANN}
    await feed.events.handle([GraphEvent(WIM, ANN, change), GraphEvent(WIM, BOB, change)])
    assert feed.topics.wishes == [EraseWish(ANN)]


async def test_what_the_erasure_itself_has_ended_mends_timelines_and_erases_nothing_more() -> None:
    feed = Feed()
    feed.truth.deleted = {ANN}
    await feed.events.handle([GraphEvent(VIC, ANN, UNFOLLOWED)])
    assert feed.topics.wishes == [Wish(VIC, ANN)]
