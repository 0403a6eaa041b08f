"""What others remember of users is deleted with every change of it, before that is acknowledged."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import NamedTuple, TypeAlias

import asyncpg
import pytest
from devmesh.backends.valkey import Valkey
from feedkit import key_scripts, keys, redis
from feedkit.errors import Unavailable
from feedkit.invalidation import Invalidation
from feedkit.postgres import Database
from feedkit.redis import Redis, RedisSettings
from graph_service.account_store import AccountStore
from graph_service.accounts import Accounts
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.favourite_store import FavouriteStore
from graph_service.favourites import Favourites
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.home_view_store import HomeViewStore
from graph_service.home_views import HomeView, HomeViews
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.store import Store

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
Change = Callable[[Follows, int, int], Coroutine[None, None, object]]
LIFE_MS = 60_000


async def follow(follows: Follows, actor: int, other: int) -> object:
    return await follows.follow(actor, other)


async def follow_many(follows: Follows, actor: int, other: int) -> object:
    return await follows.follow_many(actor, [other])


async def unfollow(follows: Follows, actor: int, other: int) -> object:
    return await follows.unfollow(actor, other)


EVERY_CHANGE = pytest.mark.parametrize("change", [follow, follow_many, unfollow])


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, 5000)


@pytest.fixture
async def pair(follows: Follows, make_users: MakeUsers, request: pytest.FixtureRequest) -> tuple[int, int]:
    """Two users for whom the change of the test is a real one, or, where it says so, one that was made before."""
    actor, other = await make_users(2)
    arguments = request.node.callspec.params
    if (arguments["change"] is unfollow) != arguments.get("made_before", False):
        await follows.follow(actor, other)
    return actor, other


async def fill(client: Redis, viewer: int) -> None:
    """Fill in what is true now, as `timeline` does."""
    token, key = key_scripts.new_token(), keys.context(viewer)
    [taken] = await client.run(key_scripts.take_lease(key, token))
    assert taken
    assert await client.run(key_scripts.fill(key, token, keys.encode_context(keys.Context([1, 2])), LIFE_MS)) == [1]


async def kept(client: Redis, viewer: int) -> bytes | None:
    [value] = await client.run(key_scripts.get(keys.context(viewer)))
    return value


@EVERY_CHANGE
@pytest.mark.parametrize("made_before", [False, True], ids=["new", "made before"])
async def test_a_context_is_gone_when_the_change_is_acknowledged(
    redis_client: Redis, follows: Follows, pair: tuple[int, int], change: Change, made_before: bool
):
    actor, other = pair
    await fill(redis_client, actor)
    await change(follows, actor, other)
    assert await kept(redis_client, actor) is None


@EVERY_CHANGE
async def test_an_absent_context_stays_absent(
    redis_client: Redis, follows: Follows, pair: tuple[int, int], change: Change
):
    await change(follows, *pair)
    assert await kept(redis_client, pair[0]) is None


@EVERY_CHANGE
async def test_the_context_of_the_other_one_stays(
    redis_client: Redis, follows: Follows, pair: tuple[int, int], change: Change
):
    await fill(redis_client, pair[1])
    await change(follows, *pair)
    assert await kept(redis_client, pair[1]) == keys.value(keys.encode_context(keys.Context([1, 2])))


@EVERY_CHANGE
async def test_a_fill_that_began_before_the_change_is_refused_after_it(
    redis_client: Redis, follows: Follows, store: Store, pair: tuple[int, int], change: Change
):
    token, key = key_scripts.new_token(), keys.context(pair[0])
    await redis_client.run(key_scripts.take_lease(key, token))
    read = await store.viewer_context(pair[0])
    stale = keys.encode_context(keys.Context(read.followee_ids if read else []))
    await change(follows, *pair)
    assert await redis_client.run(key_scripts.fill(key, token, stale, LIFE_MS)) == [0]
    assert await kept(redis_client, pair[0]) is None


@EVERY_CHANGE
async def test_a_context_is_not_deleted_before_the_change_is_committed(
    redis_client: Redis, follows: Follows, pair: tuple[int, int], change: Change, sql: Sql
):
    actor, _ = pair
    await fill(redis_client, actor)
    async with sql.transaction():
        await sql.execute("SELECT FROM users WHERE id = $1 FOR UPDATE", actor)
        changing = asyncio.create_task(change(follows, *pair))
        async with asyncio.timeout(10):
            # PostgreSQL tells nobody of a wait.
            while not await sql.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert await kept(redis_client, actor) is not None
    await changing
    assert await kept(redis_client, actor) is None


async def test_a_mass_follow_deletes_the_context_also_where_some_are_refused(
    redis_client: Redis, follows: Follows, make_users: MakeUsers
):
    actor, other = await make_users(2)
    await fill(redis_client, actor)
    await follows.follow_many(actor, [actor, 2**63 - 1, other])
    assert await kept(redis_client, actor) is None


# --- what else is cached ----------------------------------------------------------------------------------------------


class Everything(NamedTuple):
    """Whatever changes something that is cached."""

    blocks: Blocks
    mutes: Mutes
    accounts: Accounts
    favourites: Favourites
    home_views: HomeViews


@pytest.fixture
def everything(database: Database, caches: CacheStore) -> Everything:
    return Everything(
        Blocks(BlockStore(database), caches, 5000),
        Mutes(MuteStore(database), caches, 5000),
        Accounts(AccountStore(database), caches),
        Favourites(FavouriteStore(database), caches, 50),
        HomeViews(HomeViewStore(database), caches),
    )


FORGOTTEN: dict[str, tuple[Callable[[Everything, int, int], Awaitable[object]], set[str]]] = {
    "block": (lambda all_, a, b: all_.blocks.block(a, b), {"ctx a", "ctx b", "hidden a", "hidden b"}),
    "unblock": (lambda all_, a, b: all_.blocks.unblock(a, b), {"hidden a", "hidden b"}),
    "mute": (lambda all_, a, b: all_.mutes.mute(a, b), {"ctx a", "hidden a"}),
    "unmute": (lambda all_, a, b: all_.mutes.unmute(a, b), {"ctx a", "hidden a"}),
    "favour": (lambda all_, a, b: all_.favourites.favour(a, b), {"ctx a"}),
    "unfavour": (lambda all_, a, b: all_.favourites.unfavour(a, b), {"ctx a"}),
    "choose a view": (lambda all_, a, _: all_.home_views.choose(a, HomeView.RANKED), {"ctx a"}),
    "suspend": (lambda all_, a, _: all_.accounts.suspend(a), {"user a"}),
    "restore": (lambda all_, a, _: all_.accounts.restore(a), {"user a"}),
    "delete": (lambda all_, a, _: all_.accounts.delete(a), {"user a", "ctx a", "hidden a"}),
}
"""Each change of a's, perhaps of how a stands to b, and what is gone when it is acknowledged."""


@pytest.mark.parametrize("change", FORGOTTEN)
async def test_what_a_change_concerns_is_gone_when_it_is_acknowledged_and_nothing_else(
    redis_client: Redis, follows: Follows, everything: Everything, make_users: MakeUsers, change: str
):
    """Also where it was made before: that call may have ended between the change and this."""
    a, b = await make_users(2)
    if change == "favour":
        await follows.follow(a, b)
    make, gone = FORGOTTEN[change]
    names = {"ctx": keys.context, "hidden": keys.hidden, "user": keys.user}
    cached = {f"{name} {who}": key(user) for name, key in names.items() for who, user in (("a", a), ("b", b))}
    for _ in range(2):
        for key in cached.values():
            await redis_client.run(("SET", key, keys.value(b""), "PX", LIFE_MS))
        await make(everything, a, b)
        kept_values = await redis_client.run(*(key_scripts.get(key) for key in cached.values()))
        assert {name for name, value in zip(cached, kept_values, strict=True) if value is None} == gone


# --- without Redis ----------------------------------------------------------------------------------------------------


@pytest.fixture
def other_valkey() -> Iterator[Valkey]:
    """A server of the test's own, which it may stop."""
    with Valkey() as server:
        yield server


@pytest.fixture
async def other_client(other_valkey: Valkey) -> AsyncIterator[Redis]:
    async with redis.connect(RedisSettings.model_validate({"redis_url": other_valkey.url})) as client:
        await client.ping()
        yield client


async def follow_quickly(follows: Follows, actor: int, others: list[int]) -> None:
    """Follow one after another; each is acknowledged well within a second."""
    for other in others:
        began = time.monotonic()
        assert await follows.follow(actor, other)
        assert time.monotonic() - began < 0.9


async def test_follows_go_on_quickly_while_redis_is_down(
    database: Database, other_valkey: Valkey, other_client: Redis, make_users: MakeUsers
):
    follows = Follows(FollowStore(database), CacheStore(Invalidation(other_client)), 5000)
    actor, *others = await make_users(4)
    await asyncio.to_thread(other_valkey.kill)
    await follow_quickly(follows, actor, others)


async def test_follows_go_on_quickly_while_redis_is_frozen_and_delete_contexts_when_it_is_back(
    database: Database, other_valkey: Valkey, other_client: Redis, make_users: MakeUsers
):
    follows = Follows(FollowStore(database), CacheStore(Invalidation(other_client)), 5000)
    actor, *others = await make_users(5)
    assert other_valkey.child
    await fill(other_client, actor)
    os.kill(other_valkey.child.pid, signal.SIGSTOP)
    try:
        await follow_quickly(follows, actor, others)
    finally:
        os.kill(other_valkey.child.pid, signal.SIGCONT)
    # Nobody has to follow again for that.
    async with asyncio.timeout(10):
        while await kept_when_back(other_client, actor):  # noqa: ASYNC110 (another process decides)
            await asyncio.sleep(0.02)


async def kept_when_back(client: Redis, viewer: int) -> bool:
    """Whether a context is there; also while nobody can tell."""
    try:
        return await kept(client, viewer) is not None
    except Unavailable:
        return True
