"""What follows from posts: bodies are forgotten, pulled authors are announced, all others delivered or withdrawn."""

import pytest
from fanout_service.delivery import Delivery, Sizes
from fanout_service.events import Chunk, EraseWish, PostChange, PostEvent
from fanout_service.post_events import PostEvents, by_author
from fanout_service.timelines import Entry
from hypothesis import given
from hypothesis import strategies as st

from .model import ModelCaches, ModelTimeline, ModelTimelines, ModelTopics, ModelTruth

ANN, BOB, CEM = 11, 12, 13


class Feed:
    """Post events on models; everybody follows everybody who writes, and has a timeline."""

    def __init__(self, *, viewers: int = 5, threshold: int = 1000, push_batch: int = 100, chunk: int = 100) -> None:
        self.truth = ModelTruth(threshold=threshold)
        self.truth.follows = {viewer: {ANN, BOB} for viewer in range(1, viewers + 1)}
        self.truth.active = set(self.truth.follows)
        self.timelines = ModelTimelines(length=10)
        self.timelines.lists = {viewer: ModelTimeline(0, b"") for viewer in self.truth.follows}
        self.caches, self.topics = ModelCaches(self.timelines), ModelTopics()
        sizes = Sizes(push_batch=push_batch, chunk=chunk, authors_at_once=3)
        self.delivery = Delivery(self.truth, self.timelines, self.topics, sizes)
        self.events = PostEvents(self.caches, self.truth, self.caches, self.delivery, self.topics)


def written(post_id: int, author_id: int) -> PostEvent:
    return PostEvent(post_id, author_id, PostChange.WRITTEN)


def deleted(post_id: int, author_id: int) -> PostEvent:
    return PostEvent(post_id, author_id, PostChange.DELETED)


async def test_an_ordinary_authors_post_is_pushed_and_not_announced() -> None:
    feed = Feed()
    await feed.events.handle([written(1, ANN)])
    assert all(feed.timelines.shown(viewer) == {1} for viewer in feed.truth.follows)
    assert feed.caches.announced == []


async def test_all_posts_of_an_author_in_a_batch_are_pushed_together() -> None:
    feed = Feed(viewers=1)
    await feed.events.handle([written(2, ANN), written(1, ANN), written(2, ANN)])
    assert len(feed.timelines.round_trips) == 1
    assert feed.timelines.shown(1) == {1, 2}


async def test_a_pulled_authors_post_is_announced_and_not_pushed() -> None:
    feed = Feed(viewers=5, threshold=5)
    await feed.events.handle([written(1, ANN), written(2, ANN), written(3, CEM)])
    assert feed.caches.announced == [{ANN}]
    assert feed.timelines.shown(1) == set()


async def test_an_edited_post_is_forgotten_and_nothing_else_happens() -> None:
    feed = Feed()
    event = PostEvent(1, ANN, PostChange.EDITED)
    await feed.events.handle([event])
    assert feed.caches.changed == [event]
    assert feed.timelines.round_trips == []
    assert feed.caches.announced == []


async def test_deleted_posts_of_an_author_are_withdrawn_together() -> None:
    feed = Feed(viewers=3, push_batch=2)
    await feed.events.handle([written(1, ANN), written(2, ANN), written(3, ANN), written(4, BOB)])
    feed.timelines.round_trips.clear()
    await feed.events.handle([deleted(1, ANN), deleted(3, ANN)])
    assert all(feed.timelines.shown(viewer) == {2, 4} for viewer in feed.truth.follows)
    assert feed.timelines.round_trips == [[1, 2], [3]]


@pytest.mark.parametrize("told", [[written(1, ANN), deleted(1, ANN)], [deleted(1, ANN), written(1, ANN)]])
async def test_a_post_that_was_written_and_deleted_is_withdrawn_and_never_delivered(told: list[PostEvent]) -> None:
    feed = Feed(viewers=1)
    feed.timelines.lists[1].entries = {Entry(1, ANN)}
    await feed.events.handle([*told, written(2, ANN)])
    assert feed.timelines.shown(1) == {2}


async def test_a_replay_from_the_start_ends_as_the_first_time() -> None:
    feed = Feed(viewers=1)
    events = [written(1, ANN), written(2, BOB), deleted(1, ANN), written(3, ANN), PostEvent(2, BOB, PostChange.EDITED)]
    for _ in range(2):
        for event in events:
            await feed.events.handle([event])
        assert feed.timelines.shown(1) == {2, 3}


async def test_a_pulled_authors_deleted_post_is_withdrawn_from_nobody() -> None:
    feed = Feed(viewers=5, threshold=5)
    await feed.events.handle([deleted(1, ANN)])
    assert feed.timelines.round_trips == []
    assert feed.caches.announced == [{ANN}], "because their list is another"


async def test_what_a_deleted_author_wrote_is_erased_and_not_delivered() -> None:
    feed = Feed()
    feed.truth.deleted = {ANN}
    feed.truth.index = {ANN: 1}
    await feed.events.handle([written(1, ANN), written(2, BOB), deleted(3, ANN)])
    assert feed.topics.wishes == [EraseWish(ANN)]
    assert feed.caches.announced == []
    assert feed.timelines.shown(1) == {2}


async def test_with_a_threshold_of_0_everybody_is_pulled_so_that_a_later_threshold_finds_all_posts() -> None:
    feed = Feed(threshold=0)
    await feed.events.handle([written(1, ANN)])
    assert feed.truth.index.keys() == {ANN}
    assert feed.caches.announced == [{ANN}]
    assert feed.timelines.round_trips == []


async def test_followers_are_pushed_to_in_batches() -> None:
    feed = Feed(viewers=5, push_batch=2)
    await feed.events.handle([written(1, ANN)])
    assert [len(followers) for followers in feed.timelines.round_trips] == [2, 2, 1]


async def test_as_many_followers_as_a_chunk_holds_are_pushed_to_at_once() -> None:
    feed = Feed(viewers=3, chunk=3)
    await feed.events.handle([written(1, ANN)])
    assert feed.topics.chunks == []
    assert feed.timelines.shown(3) == {1}


async def test_one_follower_more_makes_chunks_of_one_post_each() -> None:
    feed = Feed(viewers=4, chunk=3)
    await feed.events.handle([written(1, ANN), written(2, ANN)])
    assert feed.timelines.round_trips == []
    assert {(c.post_id, c.author_id, tuple(c.follower_ids)) for c in feed.topics.chunks} == {
        (1, ANN, (1, 2, 3)),
        (2, ANN, (1, 2, 3)),
        (1, ANN, (4,)),
        (2, ANN, (4,)),
    }


async def test_withdrawals_from_many_followers_are_chunks_too() -> None:
    feed = Feed(viewers=4, chunk=3)
    await feed.events.handle([deleted(1, ANN)])
    assert feed.topics.chunks == [Chunk(1, ANN, [1, 2, 3], withdrawn=True), Chunk(1, ANN, [4], withdrawn=True)]
    feed.timelines.lists[4].entries = {Entry(1, ANN), Entry(2, ANN)}
    for piece in feed.topics.chunks:
        await feed.delivery.deliver_chunk(piece)
    assert feed.timelines.shown(4) == {2}


async def test_a_chunk_is_pushed_to_the_followers_that_it_names() -> None:
    feed = Feed(viewers=4)
    await feed.delivery.deliver_chunk(Chunk(7, ANN, [2, 4, 99]))
    assert [viewer for viewer in feed.truth.follows if feed.timelines.shown(viewer)] == [2, 4]


@given(viewers=st.integers(0, 30), chunk=st.integers(1, 12), posts=st.sets(st.integers(1, 50), min_size=1, max_size=3))
async def test_pushed_at_once_or_by_chunks_every_follower_gets_every_post(
    viewers: int, chunk: int, posts: set[int]
) -> None:
    feed = Feed(viewers=viewers, chunk=chunk, push_batch=5)
    await feed.events.handle([written(post, ANN) for post in posts])
    assert all(len(piece.follower_ids) <= chunk for piece in feed.topics.chunks)
    for piece in feed.topics.chunks:
        await feed.delivery.deliver_chunk(piece)
    assert all(feed.timelines.shown(viewer) == posts for viewer in feed.truth.follows)


def test_posts_are_grouped_by_author_oldest_first() -> None:
    events = [written(5, ANN), written(3, BOB), written(4, ANN), deleted(9, CEM), deleted(8, CEM), deleted(4, ANN)]
    assert by_author(events) == ({ANN: [5], BOB: [3]}, {ANN: [4], CEM: [8, 9]})
