"""What Redis holds of posts is changed with them, before the change is acknowledged: bodies, and authors' own newest."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import TypeAlias

import asyncpg
import pytest
from devmesh.backends.valkey import Valkey
from feedkit import key_scripts, keys, redis
from feedkit.errors import DeadlineExceeded, NotFound, PermissionDenied, Unavailable
from feedkit.invalidation import Invalidation
from feedkit.keys import PostList
from feedkit.redis import Redis, RedisSettings
from post_service.audience import Audience
from post_service.authors import Authors, Standing
from post_service.cache_store import CacheStore
from post_service.erasure import Erasure
from post_service.post import Draft, Edit
from post_service.posts import Posts
from post_service.store import PostStore
from post_service.worker_lease import Ids

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
LIFE_MS = 60_000
OWN_LENGTH = 5
AUTHOR = 7
BODY = b"a body"
NONE_SUCH = b""
DRAFT = Draft(AUTHOR, "text", ())
EDIT = Edit("other", None)


@pytest.fixture
def posts(store: PostStore, redis_client: Redis, ids: Ids, authors: Authors, audience: Audience) -> Posts:
    """With short own lists."""
    return Posts(store, CacheStore(Invalidation(redis_client), OWN_LENGTH), ids, authors, audience)


async def write(posts: Posts, key: str = "") -> int:
    return (await posts.create(DRAFT, key)).post.id


async def lease(client: Redis, key: str) -> bytes:
    """Begin to fill a key, as its readers do."""
    token = key_scripts.new_token()
    [taken] = await client.run(key_scripts.take_lease(key, token))
    assert taken
    return token


async def fill(client: Redis, key: str, payload: bytes) -> None:
    """Fill a key in, as its readers do."""
    assert await client.run(key_scripts.fill(key, await lease(client, key), payload, LIFE_MS)) == [1]


async def fill_own(client: Redis, post_ids: Sequence[int], horizon: int = 0) -> None:
    await fill(client, keys.own(AUTHOR), keys.encode_post_list(post_ids, horizon))


async def held(client: Redis, key: str) -> bytes | None:
    [value] = await client.run(key_scripts.get(key))
    return value


async def own(client: Redis) -> PostList:
    payload = keys.payload(await held(client, keys.own(AUTHOR)))
    assert payload is not None
    return keys.decode_post_list(payload)


# --- written ----------------------------------------------------------------------------------------------------------


async def test_a_new_post_is_in_its_authors_own_list_when_it_is_acknowledged(posts: Posts, redis_client: Redis) -> None:
    await fill_own(redis_client, [])
    written = [await write(posts) for _ in range(3)]
    assert await own(redis_client) == PostList(tuple(reversed(written)), 0)


async def test_the_own_list_is_kept_short_and_says_down_to_where_it_goes(posts: Posts, redis_client: Redis) -> None:
    await fill_own(redis_client, [])
    written = [await write(posts) for _ in range(OWN_LENGTH + 2)]
    assert await own(redis_client) == PostList(tuple(reversed(written[2:])), written[1])


async def test_an_own_list_that_is_absent_stays_absent(posts: Posts, redis_client: Redis) -> None:
    await write(posts)
    assert await held(redis_client, keys.own(AUTHOR)) is None


async def test_a_fill_of_the_own_list_that_began_before_the_post_is_refused_after_it(
    posts: Posts, redis_client: Redis
) -> None:
    key = keys.own(AUTHOR)
    token = await lease(redis_client, key)
    stale = keys.encode_post_list((await posts.recent([AUTHOR], 0, OWN_LENGTH)).post_ids, 0)
    await write(posts)
    assert await redis_client.run(key_scripts.fill(key, token, stale, LIFE_MS)) == [0]
    assert await held(redis_client, key) is None


class Foretold:
    """Ids that somebody could guess."""

    def __init__(self, *post_ids: int) -> None:
        self._post_ids = iter(post_ids)

    async def next_id(self) -> int:
        return next(self._post_ids)


@pytest.fixture
def foretold(store: PostStore, redis_client: Redis, authors: Authors, audience: Audience) -> Posts:
    """Whose next post has the id 5."""
    return Posts(store, CacheStore(Invalidation(redis_client), OWN_LENGTH), Foretold(5), authors, audience)


async def test_that_there_is_no_such_post_is_forgotten_when_there_is(foretold: Posts, redis_client: Redis) -> None:
    await fill(redis_client, keys.post(5), NONE_SUCH)
    assert await write(foretold) == 5
    assert await held(redis_client, keys.post(5)) is None


async def test_that_there_is_no_such_post_is_not_filled_in_by_who_found_that_before(
    foretold: Posts, redis_client: Redis
) -> None:
    token = await lease(redis_client, keys.post(5))
    assert await write(foretold) == 5
    assert await redis_client.run(key_scripts.fill(keys.post(5), token, NONE_SUCH, LIFE_MS)) == [0]


async def test_a_retry_does_what_the_first_try_may_have_left_undone(posts: Posts, redis_client: Redis) -> None:
    post_id = await write(posts, "k")
    await fill_own(redis_client, [])
    await fill(redis_client, keys.post(post_id), NONE_SUCH)
    assert await write(posts, "k") == post_id
    assert await own(redis_client) == PostList((post_id,), 0)
    assert await held(redis_client, keys.post(post_id)) is None


async def test_a_retry_does_not_add_a_post_twice(posts: Posts, redis_client: Redis) -> None:
    await fill_own(redis_client, [])
    assert await write(posts, "k") == await write(posts, "k")
    assert len((await own(redis_client)).post_ids) == 1


async def test_a_post_takes_one_round_trip_to_redis(posts: Posts, redis_client: Redis) -> None:
    await write(posts)  # the server has the script after this
    before = await pieces_read(redis_client)
    await write(posts)
    assert await pieces_read(redis_client) - before == 1 + 1  # the question itself is one, too


async def pieces_read(client: Redis) -> int:
    """How often the server has read from its clients."""
    [told] = await client.run(("INFO", "stats"))
    lines = dict(line.split(":") for line in told.decode().split() if ":" in line)
    return int(lines["total_reads_processed"])


# --- deleted ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("already", [False, True], ids=["standing", "deleted already"])
async def test_a_body_is_gone_when_its_deletion_is_acknowledged(
    posts: Posts, redis_client: Redis, already: bool
) -> None:
    post_id = await write(posts)
    if already:
        await posts.delete(AUTHOR, post_id)
    await fill(redis_client, keys.post(post_id), BODY)
    await posts.delete(AUTHOR, post_id)
    assert await held(redis_client, keys.post(post_id)) is None


async def test_the_own_list_is_gone_when_a_deletion_is_acknowledged(posts: Posts, redis_client: Redis) -> None:
    """And so is a deleted post from it, when it is filled in again."""
    post_id = await write(posts)
    await fill_own(redis_client, [post_id])
    await posts.delete(AUTHOR, post_id)
    assert await held(redis_client, keys.own(AUTHOR)) is None


async def test_a_body_that_is_absent_stays_absent(posts: Posts, redis_client: Redis) -> None:
    post_id = await write(posts)
    await posts.delete(AUTHOR, post_id)
    assert await held(redis_client, keys.post(post_id)) is None


async def test_a_fill_of_a_body_that_began_before_its_deletion_is_refused_after_it(
    posts: Posts, redis_client: Redis
) -> None:
    post_id = await write(posts)
    key = keys.post(post_id)
    token = await lease(redis_client, key)
    assert await posts.get(post_id)
    await posts.delete(AUTHOR, post_id)
    assert await redis_client.run(key_scripts.fill(key, token, BODY, LIFE_MS)) == [0]
    assert await held(redis_client, key) is None


async def test_a_body_is_not_forgotten_before_the_deletion_is_committed(
    posts: Posts, redis_client: Redis, sql: Sql
) -> None:
    post_id = await write(posts)
    await fill(redis_client, keys.post(post_id), BODY)
    async with sql.transaction():
        await sql.execute("SELECT FROM posts WHERE id = $1 FOR UPDATE", post_id)
        deleting = asyncio.create_task(posts.delete(AUTHOR, post_id))
        async with asyncio.timeout(10):
            # PostgreSQL tells nobody of a wait.
            while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert await held(redis_client, keys.post(post_id)) == keys.value(BODY)
    await deleting
    assert await held(redis_client, keys.post(post_id)) is None


async def test_a_deletion_that_is_refused_forgets_nothing(posts: Posts, redis_client: Redis) -> None:
    post_id = await write(posts)
    await fill(redis_client, keys.post(post_id), BODY)
    await fill_own(redis_client, [post_id])
    with pytest.raises(PermissionDenied):
        await posts.delete(AUTHOR + 1, post_id)
    assert await held(redis_client, keys.post(post_id)) == keys.value(BODY)
    assert await own(redis_client) == PostList((post_id,), 0)


# --- edited -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("already", [False, True], ids=["as it was", "edited already"])
async def test_a_body_is_gone_when_its_edit_is_acknowledged(posts: Posts, redis_client: Redis, already: bool) -> None:
    post_id = await write(posts)
    if already:
        await posts.edit(AUTHOR, post_id, EDIT)
    await fill(redis_client, keys.post(post_id), BODY)
    await posts.edit(AUTHOR, post_id, EDIT)
    assert await held(redis_client, keys.post(post_id)) is None


async def test_a_fill_of_a_body_that_began_before_its_edit_is_refused_after_it(
    posts: Posts, redis_client: Redis
) -> None:
    post_id = await write(posts)
    token = await lease(redis_client, keys.post(post_id))
    await posts.edit(AUTHOR, post_id, EDIT)
    assert await redis_client.run(key_scripts.fill(keys.post(post_id), token, BODY, LIFE_MS)) == [0]


async def test_an_edit_leaves_the_own_list(posts: Posts, redis_client: Redis) -> None:
    post_id = await write(posts)
    await fill_own(redis_client, [post_id])
    await posts.edit(AUTHOR, post_id, EDIT)
    assert await own(redis_client) == PostList((post_id,), 0)


async def test_an_edit_that_is_refused_forgets_nothing(posts: Posts, redis_client: Redis) -> None:
    post_id = await write(posts)
    await fill(redis_client, keys.post(post_id), BODY)
    with pytest.raises(PermissionDenied):
        await posts.edit(AUTHOR + 1, post_id, EDIT)
    assert await held(redis_client, keys.post(post_id)) == keys.value(BODY)


# --- erased -----------------------------------------------------------------------------------------------------------


async def test_nothing_of_an_author_who_is_erased_is_kept(
    posts: Posts, erasure: Erasure, redis_client: Redis, standings: dict[int, Standing | None]
) -> None:
    written = [await write(posts) for _ in range(3)]
    await fill_own(redis_client, written)
    for post_id in written:
        await fill(redis_client, keys.post(post_id), BODY)
    standings[AUTHOR] = None
    await erasure.erase(AUTHOR)
    assert await redis_client.run(("DBSIZE",)) == [0]


async def test_bodies_are_forgotten_after_their_posts_are_deleted_and_before_these_are_gone(
    posts: Posts, erasure: Erasure, redis_client: Redis, standings: dict[int, Standing | None], sql: Sql
) -> None:
    """So that nobody can fill one in afterwards, and whoever dies in between leaves them to be found."""
    post_id = await write(posts)
    await fill(redis_client, keys.post(post_id), BODY)
    standings[AUTHOR] = None
    await sql.execute("CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE query_canceled; END'")
    await sql.execute("CREATE TRIGGER die BEFORE DELETE ON posts FOR EACH ROW EXECUTE FUNCTION die()")
    with pytest.raises(DeadlineExceeded):
        await erasure.erase(AUTHOR)
    assert await held(redis_client, keys.post(post_id)) is None
    assert await sql.fetch("SELECT id, deleted FROM posts") == [(post_id, True)]


# --- without Redis ----------------------------------------------------------------------------------------------------


@pytest.fixture
def other_valkey() -> Generator[Valkey]:
    """A server of the test's own, which it may stop."""
    with Valkey() as server:
        yield server


@pytest.fixture
async def other_client(other_valkey: Valkey) -> AsyncGenerator[Redis]:
    async with redis.connect(RedisSettings.model_validate({"redis_url": other_valkey.url})) as client:
        await client.ping()
        yield client


@pytest.fixture
def other_posts(store: PostStore, other_client: Redis, ids: Ids, authors: Authors, audience: Audience) -> Posts:
    return Posts(store, CacheStore(Invalidation(other_client), OWN_LENGTH), ids, authors, audience)


async def write_and_delete_quickly(posts: Posts) -> None:
    """Write posts and delete them; each change is acknowledged well within a second."""
    for _ in range(3):
        began = time.monotonic()
        post_id = await write(posts)
        written = time.monotonic()
        await posts.delete(AUTHOR, post_id)
        assert max(written - began, time.monotonic() - written) < 0.9
        with pytest.raises(NotFound):
            await posts.get(post_id)


async def test_writing_goes_on_quickly_while_redis_is_down(other_posts: Posts, other_valkey: Valkey) -> None:
    await asyncio.to_thread(other_valkey.kill)
    await write_and_delete_quickly(other_posts)


async def test_writing_goes_on_quickly_while_redis_is_frozen_and_tells_it_of_changes_when_it_is_back(
    other_posts: Posts, other_valkey: Valkey, other_client: Redis
) -> None:
    await fill_own(other_client, [])
    assert other_valkey.child
    os.kill(other_valkey.child.pid, signal.SIGSTOP)
    try:
        await write_and_delete_quickly(other_posts)
    finally:
        os.kill(other_valkey.child.pid, signal.SIGCONT)
    # Nobody has to write again for that.
    async with asyncio.timeout(10):
        while await kept_when_back(other_client):  # noqa: ASYNC110 (another process decides)
            await asyncio.sleep(0.02)
    await fill_own(other_client, [])
    assert await write(other_posts) in (await own(other_client)).post_ids


async def kept_when_back(client: Redis) -> bool:
    """Whether the author's list is there; also while nobody can tell."""
    try:
        return await held(client, keys.own(AUTHOR)) is not None
    except Unavailable:
        return True


async def test_a_list_that_cannot_be_added_to_because_redis_is_full_is_deleted(
    other_posts: Posts, other_client: Redis
) -> None:
    await fill_own(other_client, [])
    await other_client.run(("CONFIG", "SET", "maxmemory", 1))
    await write(other_posts)
    assert await held(other_client, keys.own(AUTHOR)) is None
