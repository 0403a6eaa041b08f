"""The cache over a real Redis: what is filled, what is not, and what a change in between does to a fill."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import count
from typing import TypeVar

import pytest
from devmesh.backends.valkey import Valkey
from feed.graph.v1 import graph_pb2
from feed.post.v1 import post_pb2
from feedkit import key_scripts, keys, redis
from feedkit.cursor import first_id_at
from hydrate_service.cache_store import SETTLED_MS, AuthorLeases, CacheStore, CountsLeases, HidesLeases, PostLeases
from hydrate_service.hydration import Hydrator, Outcome, Shown
from hydrate_service.truth import SharedReads
from hydrate_service.visibility import NOTHING_HIDDEN, Author, Hides, Surface, Withheld

pytestmark = pytest.mark.integration

LIFE_SECONDS = 900.0
NONE = keys.Counts(0, 0, 0)
VIC = 5
_ids = count(1000)
Value = TypeVar("Value")


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
async def cache(valkey: Valkey) -> AsyncIterator[redis.Redis]:
    async with redis.connect(redis.RedisSettings.model_validate({"redis_url": valkey.url})) as client:
        yield client


class Truth:
    """All there is, how often it was read, and a way to hold a read up between its look and its answer."""

    def __init__(self) -> None:
        self.posts: dict[int, post_pb2.Post] = {}
        self.authors: dict[int, Author] = {}
        self.hides: dict[int, Hides] = {}
        self.counts: dict[int, keys.Counts] = {}
        self.reads = self.count_reads = 0
        self.looks: asyncio.Queue[None] = asyncio.Queue()
        self.may_answer: asyncio.Event | None = None
        """What the next read waits for between its look and its answer."""
        self.counting = asyncio.Event()
        """Set when a read of counts has looked."""
        self.may_count: asyncio.Event | None = None
        """What reads of counts wait for between their look and their answer."""

    def written(self, author_id: int = 7) -> post_pb2.Post:
        """A new post."""
        post = post_pb2.Post(id=next(_ids), author_id=author_id, content="hello 👋")
        self.posts[post.id] = post
        return post

    async def load_posts(self, ids: Collection[int]) -> Mapping[int, post_pb2.Post]:
        return await self._answer({id: self.posts[id] for id in ids if id in self.posts})

    async def load_counts(self, ids: Collection[int]) -> Mapping[int, keys.Counts]:
        """Counted apart, so that `reads` are those which a post needs to be shown."""
        self.count_reads += 1
        found = {id: self.counts.get(id, NONE) for id in ids if id in self.posts}
        self.counting.set()
        if self.may_count:
            await self.may_count.wait()
        return found

    async def load_authors(self, ids: Collection[int]) -> Mapping[int, Author]:
        return await self._answer({id: self.authors[id] for id in ids if id in self.authors})

    async def load_hides(self, ids: Collection[int]) -> Mapping[int, Hides]:
        return await self._answer({id: self.hides.get(id, NOTHING_HIDDEN) for id in ids})

    async def between(self, viewer_id: int, author_ids: Collection[int]) -> Collection[int]:
        """See `hydration.Blocks`; no test here has so many blocks."""
        raise NotImplementedError

    async def _answer(self, found: Mapping[int, Value]) -> Mapping[int, Value]:
        self.reads += 1
        held_up, self.may_answer = self.may_answer, None
        self.looks.put_nowait(None)
        if held_up:
            await held_up.wait()
        return found


class Process:
    """The parts of one process of hydrate that share reads. Entered and left, so that its fills are done."""

    def __init__(self, cache: redis.Redis, truth: Truth, count_seconds: float = 5.0) -> None:
        self._shared = (
            SharedReads(truth.load_posts, PostLeases(cache, LIFE_SECONDS), lambda: 5.0),
            SharedReads(truth.load_authors, AuthorLeases(cache, LIFE_SECONDS), lambda: 5.0),
            SharedReads(truth.load_hides, HidesLeases(cache, LIFE_SECONDS), lambda: 5.0),
        )
        self._counts = SharedReads(truth.load_counts, CountsLeases(cache, LIFE_SECONDS), lambda: count_seconds)
        self._hydrator = Hydrator(
            CacheStore(cache), *self._shared, truth, counts=self._counts, note_withheld=lambda reason, surface: None
        )
        self._open = AsyncExitStack()

    async def hydrate(self, *post_ids: int, viewer: int = 0) -> dict[int, Outcome[post_pb2.Post]]:
        return await self._hydrator.hydrate(post_ids, viewer_id=viewer, surface=Surface.FEED)

    async def __aenter__(self) -> "Process":
        for shared in self._shared:
            await self._open.enter_async_context(shared)
        await self._open.enter_async_context(self._counts)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()


@pytest.fixture
def truth() -> Truth:
    truth = Truth()
    truth.authors = {7: Author(7, "Ann"), 8: Author(8, "Bob")}
    return truth


async def hydrated(
    cache: redis.Redis, truth: Truth, *post_ids: int, viewer: int = 0
) -> dict[int, Outcome[post_pb2.Post]]:
    """What a process of its own makes of posts; its fills are done."""
    async with Process(cache, truth) as process:
        return await process.hydrate(*post_ids, viewer=viewer)


async def held(cache: redis.Redis, key: str) -> bytes | None:
    [value] = await cache.run(key_scripts.get(key))
    return value


async def life_ms(cache: redis.Redis, key: str) -> int:
    [left] = await cache.run(("PTTL", key))
    return left


async def test_what_was_read_is_filled_in_for_everybody(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    shown = {post.id: Shown(post, "Ann", NONE)}
    assert await hydrated(cache, truth, post.id) == shown
    reads = truth.reads
    assert await hydrated(cache, truth, post.id) == shown
    assert truth.reads == reads
    assert keys.payload(await held(cache, keys.post(post.id))) == post.SerializeToString()
    for key in (keys.post(post.id), keys.user(7)):
        assert 0 < await life_ms(cache, key) <= LIFE_SECONDS * 1000


async def test_values_that_were_not_written_by_us_cost_no_answer(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    await cache.run(("DEL", keys.user(7)), ("SET", keys.post(post.id), b"V\xff"), ("HSET", keys.user(7), "name", "Ann"))
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", NONE)}
    await cache.run(("DEL", keys.user(7)), ("SET", keys.user(7), b"V\xff"))
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", NONE)}
    await cache.run(("DEL", keys.user(7)))


@pytest.mark.parametrize("garbage", [b"V", b"V\0\0\0\0\1", b"V\0\0\0\0\0\0"])
async def test_hides_that_were_not_written_by_us_hide_nothing_and_show_nothing(
    cache: redis.Redis, truth: Truth, garbage: bytes
) -> None:
    post = truth.written()
    truth.hides[VIC] = Hides((), [7], more_block=False)
    await cache.run(("SET", keys.hidden(VIC), garbage))
    assert await hydrated(cache, truth, post.id, viewer=VIC) == {post.id: Withheld.MUTED}
    await cache.run(key_scripts.forget(keys.hidden(VIC)))


async def test_a_user_whose_standing_is_not_cached_is_read_from_the_truth(cache: redis.Redis, truth: Truth) -> None:
    """As one who was cached before there were standings."""
    post = truth.written(8)
    truth.authors[8] = Author(8, "Bob", suspended=True)
    await cache.run(("SET", keys.user(8), keys.value(graph_pb2.User(id=8, name="Bob").SerializeToString())))
    assert await hydrated(cache, truth, post.id) == {post.id: Withheld.AUTHOR_SUSPENDED}
    await cache.run(key_scripts.forget(keys.user(8)))


async def test_that_there_is_no_post_is_remembered(cache: redis.Redis, truth: Truth) -> None:
    absent = next(_ids)
    assert await hydrated(cache, truth, absent) == {absent: Withheld.NOT_FOUND}
    assert keys.payload(await held(cache, keys.post(absent))) == b""
    assert await hydrated(cache, truth, absent) == {absent: Withheld.NOT_FOUND}
    assert truth.reads == 1


@pytest.mark.parametrize("ahead_ms", [-SETTLED_MS + 5_000, 0, 3_600_000], ids=["just now", "now", "in an hour"])
async def test_that_there_is_no_post_yet_is_not_remembered(cache: redis.Redis, truth: Truth, ahead_ms: int) -> None:
    """Whoever asks for ids before they are given away must not hide the posts that get them."""
    post_id = first_id_at(int(time.time() * 1000) + ahead_ms) + next(_ids)
    assert await hydrated(cache, truth, post_id) == {post_id: Withheld.NOT_FOUND}
    assert keys.payload(await held(cache, keys.post(post_id))) is None


async def test_that_there_is_no_user_is_not_remembered(cache: redis.Redis, truth: Truth) -> None:
    author_id = next(_ids)
    post = truth.written(author_id)
    assert await hydrated(cache, truth, post.id) == {post.id: Withheld.AUTHOR_NOT_FOUND}
    truth.authors[author_id] = Author(author_id, "Cleo")
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Cleo", NONE)}


async def test_what_somebody_else_is_filling_in_is_read_from_the_truth(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    token = key_scripts.new_token()
    await cache.run(key_scripts.take_lease(keys.post(post.id), token))
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", NONE)}
    assert await held(cache, keys.post(post.id)) == keys.lease(token)


async def test_a_delete_while_a_fill_is_under_way_is_not_undone_by_it(cache: redis.Redis, truth: Truth) -> None:
    """The fill has looked before the delete and writes after it."""
    post = truth.written()
    may_answer = truth.may_answer = asyncio.Event()
    async with Process(cache, truth) as process:
        early = asyncio.create_task(process.hydrate(post.id))
        await truth.looks.get()
        del truth.posts[post.id]
        await cache.run(key_scripts.forget(keys.post(post.id)))  # and now the delete is acknowledged
        may_answer.set()
        assert await early == {post.id: Shown(post, "Ann", NONE)}
    assert await held(cache, keys.post(post.id)) is None


async def test_a_delete_is_seen_by_who_comes_after_it_also_while_an_older_look_is_under_way(
    cache: redis.Redis, truth: Truth
) -> None:
    post = truth.written()
    may_answer = truth.may_answer = asyncio.Event()
    async with Process(cache, truth) as process:
        early = asyncio.create_task(process.hydrate(post.id))
        await truth.looks.get()
        del truth.posts[post.id]
        await cache.run(key_scripts.forget(keys.post(post.id)))
        async with asyncio.timeout(5):
            assert await process.hydrate(post.id) == {post.id: Withheld.NOT_FOUND}
        may_answer.set()
        await early
        assert await process.hydrate(post.id) == {post.id: Withheld.NOT_FOUND}
    assert await hydrated(cache, truth, post.id) == {post.id: Withheld.NOT_FOUND}


async def test_an_edit_shows_at_the_next_look_whoever_fills_in_when(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()

    async def edit(number: int) -> None:
        truth.posts[post.id] = post_pb2.Post(id=post.id, author_id=7, content=str(number))
        await cache.run(key_scripts.forget(keys.post(post.id)))

    async with Process(cache, truth) as one, Process(cache, truth) as another:
        looks = [asyncio.create_task(one.hydrate(post.id))]
        for number in range(100):
            looks += [asyncio.create_task(process.hydrate(post.id)) for process in (one, another) for _ in range(3)]
            await edit(number)
            answer = await (one, another)[number % 2].hydrate(post.id)
            assert answer == {post.id: Shown(truth.posts[post.id], "Ann", NONE)}
        await asyncio.gather(*looks)


# --- standing, and what is hidden -------------------------------------------------------------------------------------


async def test_how_an_author_stands_is_filled_in_with_the_name(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written(author_id := next(_ids))
    for suspended, expected in ((True, Withheld.AUTHOR_SUSPENDED), (False, Shown(post, "Eve", NONE))):
        truth.authors[author_id] = Author(author_id, "Eve", suspended)
        await cache.run(key_scripts.forget(keys.user(author_id)))
        assert await hydrated(cache, truth, post.id) == {post.id: expected}
        reads = truth.reads
        assert await hydrated(cache, truth, post.id) == {post.id: expected}
        assert truth.reads == reads, "the second time from the cache"


@pytest.mark.parametrize(
    "hides",
    [NOTHING_HIDDEN, Hides([6, 7], [8], more_block=False), Hides((), range(1, 5001), more_block=False)],
    ids=["nothing", "some", "thousands"],
)
async def test_what_is_hidden_from_a_viewer_is_filled_in(cache: redis.Redis, truth: Truth, hides: Hides) -> None:
    viewer, post, other = next(_ids) + 10_000, truth.written(7), truth.written(8)
    truth.hides[viewer] = hides
    cold = await hydrated(cache, truth, post.id, other.id, viewer=viewer)
    reads = truth.reads
    assert await hydrated(cache, truth, post.id, other.id, viewer=viewer) == cold
    assert truth.reads == reads
    payload = keys.payload(await held(cache, keys.hidden(viewer)))
    assert payload is not None
    blocked, muted, more_block = keys.decode_hidden(payload)
    assert (list(blocked), list(muted), more_block) == (list(hides.blocked), list(hides.muted), False)
    assert len(payload) == 5 + 8 * (len(hides.blocked) + len(hides.muted)), "nothing hidden is five bytes"
    assert 0 < await life_ms(cache, keys.hidden(viewer)) <= LIFE_SECONDS * 1000


async def test_a_block_is_seen_by_who_comes_after_it_also_while_an_older_look_is_under_way(
    cache: redis.Redis, truth: Truth
) -> None:
    """Nor does the older look, which ends later, fill in what was true before."""
    viewer, post = next(_ids) + 10_000, truth.written()
    await hydrated(cache, truth, post.id)
    may_answer = truth.may_answer = asyncio.Event()
    truth.looks = asyncio.Queue()
    async with Process(cache, truth) as process:
        early = asyncio.create_task(process.hydrate(post.id, viewer=viewer))
        await truth.looks.get()
        truth.hides[viewer] = Hides([7], (), more_block=False)
        await cache.run(key_scripts.forget(keys.hidden(viewer)))  # and now the block is acknowledged
        async with asyncio.timeout(5):
            assert await process.hydrate(post.id, viewer=viewer) == {post.id: Withheld.BLOCKED}
        may_answer.set()
        assert await early == {post.id: Shown(post, "Ann", NONE)}
        assert await process.hydrate(post.id, viewer=viewer) == {post.id: Withheld.BLOCKED}
    assert await hydrated(cache, truth, post.id, viewer=viewer) == {post.id: Withheld.BLOCKED}


async def test_blocks_and_unblocks_show_at_the_next_look_whoever_fills_in_when(
    cache: redis.Redis, truth: Truth
) -> None:
    viewer, post = next(_ids) + 10_000, truth.written()
    async with Process(cache, truth) as one, Process(cache, truth) as another:
        looks = list["asyncio.Task[object]"]()
        for number in range(60):
            looks += [
                asyncio.create_task(process.hydrate(post.id, viewer=viewer))
                for process in (one, another)
                for _ in range(3)
            ]
            truth.hides[viewer] = NOTHING_HIDDEN if number % 2 else Hides([7], (), more_block=False)
            await cache.run(key_scripts.forget(keys.hidden(viewer)))
            answer = await (one, another)[number // 2 % 2].hydrate(post.id, viewer=viewer)
            assert answer == {post.id: Shown(post, "Ann", NONE) if number % 2 else Withheld.BLOCKED}
        await asyncio.gather(*looks)


async def test_fifty_at_once_that_miss_are_few_reads(cache: redis.Redis, truth: Truth) -> None:
    posts = [truth.written(7 + place % 2) for place in range(20)]
    async with Process(cache, truth) as process:
        answers = await asyncio.gather(
            *(process.hydrate(*(post.id for post in posts), viewer=number) for number in range(50))
        )
    assert all(len(answer) == 20 and all(isinstance(one, Shown) for one in answer.values()) for answer in answers)
    assert truth.reads <= 15


# --- counts ------------------------------------------------------------------------------------------------------------


async def test_counts_are_filled_in_and_read_again_when_they_are_forgotten(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    for counts in (keys.Counts(3, 1, 2), keys.Counts(10**12, 0, 0)):
        truth.counts[post.id] = counts
        await cache.run(key_scripts.forget(keys.counts(post.id)))
        assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", counts)}
        reads = truth.count_reads
        assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", counts)}
        assert truth.count_reads == reads, "the second time from the cache"
    assert await held(cache, keys.counts(post.id)) == keys.value(keys.encode_counts(counts))
    assert 0 < await life_ms(cache, keys.counts(post.id)) <= LIFE_SECONDS * 1000


async def test_no_counts_are_filled_in_of_what_is_not_there(cache: redis.Redis, truth: Truth) -> None:
    absent = next(_ids)
    await hydrated(cache, truth, absent)
    assert keys.payload(await held(cache, keys.counts(absent))) is None


async def test_counts_that_were_not_written_by_us_are_read_from_the_truth(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    await cache.run(("SET", keys.counts(post.id), b"V\xff"))
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", NONE)}


async def test_a_like_while_counts_are_being_filled_in_is_not_lost_in_the_cache(
    cache: redis.Redis, truth: Truth
) -> None:
    """The fill has looked before the like and writes after it was told of."""
    post = truth.written()
    may_count = truth.may_count = asyncio.Event()
    async with Process(cache, truth) as process:
        early = asyncio.create_task(process.hydrate(post.id))
        await truth.counting.wait()
        truth.counts[post.id] = keys.Counts(1, 0, 0)
        await cache.run(key_scripts.forget(keys.counts(post.id)))
        may_count.set()
        assert await early == {post.id: Shown(post, "Ann", NONE)}
    assert await held(cache, keys.counts(post.id)) is None
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", keys.Counts(1, 0, 0))}


async def test_counts_that_come_late_are_left_out_and_cached_for_whoever_comes_next(
    cache: redis.Redis, truth: Truth
) -> None:
    post = truth.written()
    may_count = truth.may_count = asyncio.Event()
    async with Process(cache, truth, count_seconds=0.01) as process:
        assert await process.hydrate(post.id) == {post.id: Shown(post, "Ann", None)}
        may_count.set()
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann", NONE)}
    assert truth.count_reads == 1


# --- without Redis -----------------------------------------------------------------------------------------------------


async def test_without_redis_the_truth_is_told(truth: Truth) -> None:
    with Valkey() as server:
        settings = redis.RedisSettings.model_validate({"redis_url": server.url})
        async with redis.connect(settings) as cache, Process(cache, truth) as process:
            post, absent = truth.written(), next(_ids)
            expected = {post.id: Shown(post, "Ann", NONE), absent: Withheld.NOT_FOUND}
            assert await process.hydrate(post.id, absent, viewer=VIC) == expected
            server.kill()
            truth.hides[VIC] = Hides([7], (), more_block=False)
            assert await process.hydrate(post.id, viewer=VIC) == {post.id: Withheld.BLOCKED}
            del truth.posts[post.id]
            assert await process.hydrate(post.id, absent, viewer=VIC) == dict.fromkeys(expected, Withheld.NOT_FOUND)
