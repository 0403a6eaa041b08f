"""What follows from changes of accounts: how one stood is forgotten, and a deleted one is erased, part by part."""

import pytest
from fanout_service.account_events import AccountEvents
from fanout_service.erase import Erase
from fanout_service.events import AccountChange, AccountEvent, EdgeChange, EraseWish, GraphEvent
from feedkit.errors import FailedPrecondition

from .model import (
    ModelCaches,
    ModelEdgeRemains,
    ModelPostRemains,
    ModelTimeline,
    ModelTimelines,
    ModelTopics,
    ModelTruth,
)

VIC, WIM = 1, 2
ANN = 11


class Feed:
    """Accounts on models; Vic and Wim follow Ann, who wrote three posts, and Vic has a timeline."""

    def __init__(self) -> None:
        self.truth = ModelTruth()
        self.truth.follows = {VIC: {ANN}, WIM: {ANN}, ANN: {VIC}}
        self.truth.mutes = {ANN: {WIM}}
        self.truth.posts = {1: ANN, 2: ANN, 3: VIC}
        self.truth.index = {ANN: 1}
        self.timelines = ModelTimelines(length=10)
        self.timelines.lists = {VIC: ModelTimeline(0, b"")}
        self.caches, self.topics = ModelCaches(self.timelines), ModelTopics()
        self.events = AccountEvents(self.caches, self.topics)
        edges = ModelEdgeRemains(self.truth)
        self.ended: list[GraphEvent] = []
        edges.ended = self.ended.append
        self.erase = Erase(edges, ModelPostRemains(self.truth), self.caches, self.topics)


@pytest.mark.parametrize("change", [AccountChange.SUSPENDED, AccountChange.RESTORED])
async def test_how_a_user_stood_is_forgotten_and_nothing_else_happens(change: AccountChange) -> None:
    feed = Feed()
    await feed.events.handle([AccountEvent(VIC, change)])
    assert feed.caches.standings == {VIC}
    assert feed.caches.users == set()
    assert feed.topics.wishes == []
    assert VIC in feed.timelines.lists, "so that it is complete when the account is restored"


async def test_a_chosen_view_makes_the_context_forgotten_and_nothing_else() -> None:
    feed = Feed()
    await feed.events.handle([AccountEvent(VIC, AccountChange.VIEW_CHOSEN), AccountEvent(WIM, AccountChange.SUSPENDED)])
    assert feed.caches.contexts == {VIC}
    assert feed.caches.standings == {WIM}
    assert feed.caches.hidden == feed.caches.users == set()
    assert feed.topics.wishes == []
    assert VIC in feed.timelines.lists


async def test_a_deleted_user_is_forgotten_whole_and_is_to_be_erased() -> None:
    feed = Feed()
    await feed.events.handle([AccountEvent(VIC, change) for change in AccountChange])
    assert feed.caches.users == {VIC}
    assert feed.timelines.lists == {}
    assert feed.topics.wishes == [EraseWish(VIC)]


async def test_an_erasure_goes_on_by_further_wishes_until_nothing_is_left() -> None:
    feed = Feed()
    feed.truth.deleted = {ANN}
    feed.topics.wishes = [EraseWish(ANN)]
    done = 0
    while done < len(feed.topics.wishes):
        assert feed.caches.users == set(), "not before the end"
        assert feed.topics.wishes[done] == EraseWish(ANN)
        await feed.erase(ANN)
        done += 1
    assert done > 3, "a part at a time"
    assert feed.truth.posts == {3: VIC}
    assert feed.truth.follows == {VIC: set(), WIM: set(), ANN: set()}
    assert feed.truth.mutes == {ANN: set()}
    assert feed.truth.index == {}
    assert feed.caches.users == {ANN}
    assert {(event.viewer_id, event.author_id) for event in feed.ended} == {(VIC, ANN), (WIM, ANN), (ANN, VIC)}
    assert {event.change for event in feed.ended} == {EdgeChange.UNFOLLOWED}


async def test_of_a_user_who_is_not_deleted_nothing_is_erased() -> None:
    feed = Feed()
    with pytest.raises(FailedPrecondition):
        await feed.erase(ANN)
    assert set(feed.truth.posts) == {1, 2, 3}
    assert feed.topics.wishes == []
