"""The cache over a real Redis: what is filled, what is not, and what a change in between does to a fill."""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import count

import pytest
from devmesh.backends.valkey import Valkey
from feed.post.v1 import post_pb2
from feedkit import key_scripts, keys, redis
from feedkit.cursor import first_id_at
from hydrate_service.cache_store import SETTLED_MS, CacheStore, NameLeases, PostLeases
from hydrate_service.hydration import Hydrator, Outcome, Shown, Withheld
from hydrate_service.truth import SharedReads

pytestmark = pytest.mark.integration

LIFE_SECONDS = 900.0
_ids = count(1000)


@pytest.fixture(scope="module")
def valkey() -> Iterator[Valkey]:
    with Valkey() as server:
        yield server


@pytest.fixture
async def cache(valkey: Valkey) -> AsyncIterator[redis.Redis]:
    async with redis.connect(redis.RedisSettings.model_validate({"redis_url": valkey.url})) as client:
        yield client


class Truth:
    """Posts and names, how often they were read, and a way to hold a read up between its look and its answer."""

    def __init__(self) -> None:
        self.posts: dict[int, post_pb2.Post] = {}
        self.names: dict[int, str] = {}
        self.reads = 0
        self.looks: asyncio.Queue[None] = asyncio.Queue()
        self.may_answer: asyncio.Event | None = None
        """What the next read of posts waits for between its look and its answer."""

    def written(self, author_id: int = 7) -> post_pb2.Post:
        """A new post."""
        post = post_pb2.Post(id=next(_ids), author_id=author_id, content="hello 👋")
        self.posts[post.id] = post
        return post

    async def load_posts(self, ids: Collection[int]) -> Mapping[int, post_pb2.Post]:
        self.reads += 1
        found = {id: self.posts[id] for id in ids if id in self.posts}
        held_up, self.may_answer = self.may_answer, None
        self.looks.put_nowait(None)
        if held_up:
            await held_up.wait()
        return found

    async def load_names(self, ids: Collection[int]) -> Mapping[int, str]:
        self.reads += 1
        return {id: self.names[id] for id in ids if id in self.names}


class Process:
    """The parts of one process of hydrate that share reads. Entered and left, so that its fills are done."""

    def __init__(self, cache: redis.Redis, truth: Truth) -> None:
        self._posts = SharedReads(truth.load_posts, PostLeases(cache, LIFE_SECONDS), lambda: 5.0)
        self._names = SharedReads(truth.load_names, NameLeases(cache, LIFE_SECONDS), lambda: 5.0)
        self._hydrator = Hydrator(CacheStore(cache), self._posts, self._names)
        self._open = AsyncExitStack()

    async def hydrate(self, *post_ids: int) -> dict[int, Outcome[post_pb2.Post]]:
        return await self._hydrator.hydrate(post_ids)

    async def __aenter__(self) -> "Process":
        await self._open.enter_async_context(self._posts)
        await self._open.enter_async_context(self._names)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()


@pytest.fixture
def truth() -> Truth:
    truth = Truth()
    truth.names = {7: "Ann", 8: "Bob"}
    return truth


async def hydrated(cache: redis.Redis, truth: Truth, *post_ids: int) -> dict[int, Outcome[post_pb2.Post]]:
    """What a process of its own makes of posts; its fills are done."""
    async with Process(cache, truth) as process:
        return await process.hydrate(*post_ids)


async def held(cache: redis.Redis, key: str) -> bytes | None:
    [value] = await cache.run(key_scripts.get(key))
    return value


async def life_ms(cache: redis.Redis, key: str) -> int:
    [left] = await cache.run(("PTTL", key))
    return left


async def test_what_was_read_is_filled_in_for_everybody(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    shown = {post.id: Shown(post, "Ann")}
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
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann")}
    await cache.run(("DEL", keys.user(7)), ("SET", keys.user(7), b"V\xff"))
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann")}
    await cache.run(("DEL", keys.user(7)))


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
    truth.names[author_id] = "Cleo"
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Cleo")}


async def test_what_somebody_else_is_filling_in_is_read_from_the_truth(cache: redis.Redis, truth: Truth) -> None:
    post = truth.written()
    token = key_scripts.new_token()
    await cache.run(key_scripts.take_lease(keys.post(post.id), token))
    assert await hydrated(cache, truth, post.id) == {post.id: Shown(post, "Ann")}
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
        assert await early == {post.id: Shown(post, "Ann")}
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
            assert answer == {post.id: Shown(truth.posts[post.id], "Ann")}
        await asyncio.gather(*looks)


async def test_fifty_at_once_that_miss_are_few_reads(cache: redis.Redis, truth: Truth) -> None:
    posts = [truth.written(7 + place % 2) for place in range(20)]
    async with Process(cache, truth) as process:
        answers = await asyncio.gather(*(process.hydrate(*(post.id for post in posts)) for _ in range(50)))
    assert all(len(answer) == 20 and all(isinstance(one, Shown) for one in answer.values()) for answer in answers)
    assert truth.reads <= 10


# --- without Redis -----------------------------------------------------------------------------------------------------


async def test_without_redis_the_truth_is_told(truth: Truth) -> None:
    with Valkey() as server:
        settings = redis.RedisSettings.model_validate({"redis_url": server.url})
        async with redis.connect(settings) as cache, Process(cache, truth) as process:
            post, absent = truth.written(), next(_ids)
            expected = {post.id: Shown(post, "Ann"), absent: Withheld.NOT_FOUND}
            assert await process.hydrate(post.id, absent) == expected
            server.kill()
            del truth.posts[post.id]
            assert await process.hydrate(post.id, absent) == dict.fromkeys(expected, Withheld.NOT_FOUND)
