"""What follows from changes between users: contexts are forgotten, and timelines that exist are to be mended."""

from fanout_service.events import FollowEvent, Wish
from fanout_service.follow_events import FollowEvents

from .model import ModelCaches, ModelTimeline, ModelTimelines, ModelTopics, ModelTruth

VIC, WIM = 1, 2
ANN, BOB = 11, 12


class Feed:
    """Follow events on models; Vic alone has a timeline."""

    def __init__(self, threshold: int = 1000) -> None:
        self.truth = ModelTruth(threshold=threshold)
        self.timelines = ModelTimelines(length=10)
        self.timelines.lists = {VIC: ModelTimeline(0, b"")}
        self.caches, self.topics = ModelCaches(self.timelines), ModelTopics()
        self.events = FollowEvents(self.caches, self.truth, self.topics)


async def test_a_timeline_that_exists_is_to_be_mended() -> None:
    feed = Feed()
    await feed.events.handle([FollowEvent(VIC, ANN), FollowEvent(VIC, BOB), FollowEvent(VIC, ANN)])
    assert feed.topics.wishes == [Wish(VIC, ANN), Wish(VIC, BOB)], "and each part of it once"


async def test_who_has_no_timeline_loses_their_context_and_nothing_is_wished_for() -> None:
    feed = Feed()
    await feed.events.handle([FollowEvent(WIM, ANN)])
    assert feed.caches.forgotten == {WIM}
    assert feed.topics.wishes == []


async def test_pulled_authors_have_no_part_in_timelines() -> None:
    feed = Feed()
    feed.truth.index = {ANN}
    await feed.events.handle([FollowEvent(VIC, ANN), FollowEvent(VIC, BOB)])
    assert feed.topics.wishes == [Wish(VIC, BOB)]
    assert feed.caches.forgotten == {VIC}


async def test_the_follow_by_which_an_author_reaches_the_threshold_brings_their_posts() -> None:
    feed = Feed(threshold=1)
    feed.truth.follows[VIC] = {ANN}
    await feed.events.handle([FollowEvent(VIC, ANN)])
    assert feed.topics.wishes == [Wish(VIC, ANN)], "no timeline has been told yet that the author is pulled"
    assert feed.truth.index == set()
