"""Features and kept orders in real Redis: what was written there is what is ranked by, and what is not is nothing."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import numpy as np
import pytest
from devmesh.backends.valkey import Valkey
from feedkit import feature_keys, keys, redis
from feedkit.cursor import EPOCH_MS, TIME_SHIFT
from feedkit.errors import Unavailable
from feedkit.feature_keys import Sums
from feedkit.redis import Command, Redis, RedisSettings
from feedrank.signals import OBSERVED
from timeline_service.author_memory import AuthorMemory
from timeline_service.candidates import Shortlist
from timeline_service.feature_store import FeatureStore
from timeline_service.features import Traits
from timeline_service.order_store import OrderStore
from timeline_service.orders import KeptOrder, new_snapshot
from timeline_service.origins import Origin
from timeline_service.ranking.arrangement import Order
from timeline_service.viewer import Context, Viewer

pytestmark = pytest.mark.integration

NOW = 1_750_000_000.0
LIFE_MS = 600_000
VIEWER = Viewer(1, frozenset({1, 2, 3}), favourites=(3,))
POSTS = [post << TIME_SHIFT for post in (5000, 4000, 3000)]


@pytest.fixture
async def client(valkey: Valkey) -> AsyncIterator[Redis]:
    """A client of an empty server."""
    async with redis.connect(RedisSettings.model_validate({"redis_url": valkey.url})) as client:
        await client.run(("FLUSHALL",))
        yield client


@pytest.fixture
def store(client: Redis) -> FeatureStore:
    """The features."""
    return FeatureStore(client, AuthorMemory(most=10, seconds=0), signals_ms=LIFE_MS, clock=lambda: NOW)


def entries(authors: tuple[int, ...] = (2, 3, 1)) -> Shortlist:
    """Three posts: of somebody whose posts are pulled, of a favourite, and of the viewer."""
    return Shortlist(
        np.array(POSTS),
        np.array(authors),
        np.array([Origin.PULLED, Origin.PUSHED, Origin.OWN], np.uint8),
        np.array([True, False, False]),
        tail=None,
    )


# --- features --------------------------------------------------------------------------------------------------------


async def test_of_authors_read_lately_nothing_is_asked_again(client: Redis) -> None:
    await client.run(feature_keys.observe_author(2, NOW, Sums(likes=3), LIFE_MS))
    store = FeatureStore(client, AuthorMemory(most=10, seconds=60), signals_ms=LIFE_MS, clock=lambda: NOW)
    first = (await store.read(VIEWER, entries())).candidates
    await client.run(("FLUSHALL",))
    again = (await store.read(VIEWER, entries())).candidates
    assert first.author_recent[0, OBSERVED.index("likes")] == 3
    assert np.array_equal(again.author_recent, first.author_recent)


async def test_of_what_nobody_told_nothing_is_known(store: FeatureStore) -> None:
    known, lacking = await store.read(VIEWER, entries())
    assert lacking.tolist() == [0, 1, 2]
    assert known.post_ids.tolist() == POSTS
    assert known.author_ids.tolist() == [2, 3, 1]
    assert known.created_at_ms.tolist() == [EPOCH_MS + 5000, EPOCH_MS + 4000, EPOCH_MS + 3000]
    assert (known.is_own.tolist(), known.is_favourite.tolist()) == ([False, False, True], [False, True, False])
    assert known.is_pulled.tolist() == [True, False, False]
    for column in (known.sums, known.recent, known.author_recent, known.affinity, known.topics, known.recent_at):
        assert not column.any()
    for column in (known.has_media, known.is_reply, known.was_seen, known.was_hidden):
        assert column.tolist() == [False] * 3


async def test_what_was_told_of_posts_authors_and_the_viewer_is_known(client: Redis, store: FeatureStore) -> None:
    likes = Sums(impressions=10, likes=4, dwell_seconds=50)
    await client.run(
        feature_keys.observe_post(POSTS[1], NOW - 60, likes, LIFE_MS),
        feature_keys.set_traits(POSTS[1], feature_keys.Traits(has_media=True, is_reply=True, topics=(9, 8)), LIFE_MS),
        feature_keys.observe_author(2, NOW - 120, Sums(replies=3), LIFE_MS),
        feature_keys.observe_affinity(1, NOW, {3: 6.0, 7: 1.0, 2: -4.0}, 100, LIFE_MS),
        feature_keys.observe_seen(1, [POSTS[0], -POSTS[2]], 100, LIFE_MS),
    )
    known, lacking = await store.read(VIEWER, entries())
    assert lacking.tolist() == [0, 2]
    assert known.sums.tolist() == [[0.0] * len(OBSERVED), list(likes), [0.0] * len(OBSERVED)]
    assert known.recent[1].tolist() == list(likes)
    assert known.recent_at.tolist() == [0, NOW - 60, 0]
    assert (known.has_media.tolist(), known.is_reply.tolist()) == ([False, True, False], [False, True, False])
    assert known.topics.tolist() == [[0] * 4, [9, 8, 0, 0], [0] * 4]
    assert known.author_recent[0].tolist() == list(Sums(replies=3))
    assert known.author_recent_at.tolist() == [NOW - 120, 0, 0]
    assert known.affinity.tolist() == [-4.0, 6.0, 0.0]
    assert (known.was_seen.tolist(), known.was_hidden.tolist()) == ([True, False, True], [False, False, True])


async def test_affinity_is_as_it_is_now(client: Redis, store: FeatureStore) -> None:
    ago = NOW - 2 * feature_keys.AFFINITY_HALF_LIFE
    await client.run(feature_keys.observe_affinity(1, ago, {3: 8.0}, 100, LIFE_MS))
    assert (await store.read(VIEWER, entries())).candidates.affinity.tolist() == pytest.approx([0, 2, 0], rel=1e-6)


async def test_all_posts_of_an_author_have_what_is_known_of_the_author(client: Redis, store: FeatureStore) -> None:
    await client.run(
        feature_keys.observe_author(2, NOW, Sums(likes=3), LIFE_MS),
        feature_keys.observe_affinity(1, NOW, {2: 5.0}, 100, LIFE_MS),
    )
    known, _ = await store.read(VIEWER, entries(authors=(2, 3, 2)))
    assert known.author_recent.sum(axis=1).tolist() == [3, 0, 3]
    assert known.affinity.tolist() == [5, 0, 5]


async def test_what_was_not_written_by_us_is_nothing(client: Redis, store: FeatureStore) -> None:
    await client.run(
        ("SET", feature_keys.post_signals(POSTS[0]), b"junk"),
        ("SET", feature_keys.author_signals(2), b""),
        ("SET", feature_keys.affinity(1), b"junk"),
        ("SET", feature_keys.seen(1), b"junk"),
    )
    known, lacking = await store.read(VIEWER, entries())
    assert lacking.tolist() == [0, 1, 2]
    assert not (known.sums.any() or known.author_recent.any() or known.affinity.any() or known.was_seen.any())


async def test_nothing_is_known_of_users_who_were_deleted(client: Redis, store: FeatureStore) -> None:
    await client.run(*feature_keys.end(1, LIFE_MS), *feature_keys.end(2, LIFE_MS))
    known, _ = await store.read(VIEWER, entries())
    assert not (known.author_recent.any() or known.affinity.any() or known.was_seen.any())


async def test_traits_are_filled_in_beside_what_people_did(client: Redis, store: FeatureStore) -> None:
    await client.run(feature_keys.observe_post(POSTS[0], NOW, Sums(likes=1), LIFE_MS))
    await store.keep_traits({POSTS[0]: Traits(has_media=True, topics=(5,)), POSTS[1]: Traits()})
    known, lacking = await store.read(VIEWER, entries())
    assert lacking.tolist() == [2]
    assert (known.has_media.tolist(), known.topics[0].tolist()) == ([True, False, False], [5, 0, 0, 0])
    assert known.sums.sum() == 1


# --- orders ----------------------------------------------------------------------------------------------------------


def order(tail: int) -> KeptOrder:
    """An order, told apart by its tail."""
    rows = np.arange(3)
    made = Order(rows=rows[::-1], scores=np.zeros(3), scored_places=rows, steps=())
    return KeptOrder.of(replace(entries(), tail=tail), made)


async def test_the_latest_orders_of_a_viewer_are_found_with_the_context(client: Redis) -> None:
    orders = OrderStore(client, most=2, life_ms=LIFE_MS)
    first, second, third = [new_snapshot() for _ in range(3)]
    assert len({first, second, third}) == 3
    for snapshot, tail in ((first, 10), (second, 20), (third, 30)):
        await orders.keep(1, snapshot, order(tail))
    assert (await orders.find(1, first)).order is None, "the oldest made room"
    for snapshot, tail in ((second, 20), (third, 30)):
        context, found = await orders.find(1, snapshot)
        assert found is not None
        assert (context, found.tail) == (None, tail)
        assert [entry.post_id for entry in found.entries_at(range(3))] == POSTS[::-1]
    await client.run(("SET", keys.context(1), keys.value(keys.encode_context(keys.Context((2, 3), (3,), True)))))
    assert (await orders.find(1, third)).context == Context((2, 3), (3,), prefers_ranked=True)
    assert (await orders.find(2, third)).order is None, "nobody walks through what was ordered for somebody else"


async def test_orders_live_as_long_as_they_are_said_to(client: Redis) -> None:
    await OrderStore(client, most=2, life_ms=LIFE_MS).keep(1, new_snapshot(), order(10))
    (life,) = await client.run(("PTTL", feature_keys.orders(1)))
    assert LIFE_MS - 10_000 < life <= LIFE_MS


async def test_an_order_that_was_not_written_by_us_is_gone(client: Redis) -> None:
    orders = OrderStore(client, most=2, life_ms=LIFE_MS)
    snapshot = new_snapshot()
    await orders.keep(1, snapshot, order(10))
    await client.run(feature_keys.keep_order(1, bytes(8), b"junk", 2, LIFE_MS))
    assert (await orders.find(1, bytes(8))).order is None
    assert (await orders.find(1, snapshot)).order is not None
    await client.run(("SET", feature_keys.orders(1), b"junk"))
    assert (await orders.find(1, snapshot)).order is None


WRONG: list[tuple[Callable[[int], str], str]] = [
    (feature_keys.affinity, "features"),
    (feature_keys.seen, "features"),
    (feature_keys.orders, "orders"),
]


@pytest.mark.parametrize(("key", "kind"), WRONG, ids=["affinity", "seen", "orders"])
async def test_a_key_of_another_type_is_unavailable_and_no_fault(
    client: Redis, store: FeatureStore, key: Callable[[int], str], kind: str
) -> None:
    command: Command = ("HSET", key(1), "field", "value")
    await client.run(command)
    with pytest.raises(Unavailable):
        if kind == "features":
            await store.read(VIEWER, entries())
        else:
            await OrderStore(client, most=2, life_ms=LIFE_MS).find(1, bytes(8))
