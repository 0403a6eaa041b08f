"""Random changes at the same time, deletions among them: the counts, the limit, the blocks and the events stay exact."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition, NotFound
from feedkit.postgres import Database
from graph_service import edge_store
from graph_service.account_store import AccountStore
from graph_service.accounts import Accounts
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.erasure import Erasure
from graph_service.erasure_store import ErasureStore
from graph_service.favourite_store import FavouriteStore
from graph_service.favourites import Favourites
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows, Outcome
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.store import Store

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
Edge = tuple[int, int]
Change = tuple[int, int, int]
"""Actor, the other one, and the kind of the event that the change makes."""

USERS, DOOMED, LIMIT, FAVOURITES, TASKS, STEPS = 14, 3, 6, 2, 24, 30
FOLLOWED = events_pb2.GRAPH_EVENT_KIND_FOLLOWED
UNFOLLOWED = events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED
MUTED = events_pb2.GRAPH_EVENT_KIND_MUTED
UNMUTED = events_pb2.GRAPH_EVENT_KIND_UNMUTED
BLOCKED = events_pb2.GRAPH_EVENT_KIND_BLOCKED
UNBLOCKED = events_pb2.GRAPH_EVENT_KIND_UNBLOCKED
FAVOURED = events_pb2.GRAPH_EVENT_KIND_FAVOURED
UNFAVOURED = events_pb2.GRAPH_EVENT_KIND_UNFAVOURED
STEPS_OF = {
    "follow": 6,
    "mass follow": 4,
    "unfollow": 4,
    "block": 2,
    "unblock": 4,
    "mute": 1,
    "unmute": 1,
    "favour": 6,
    "unfavour": 1,
    "erase": 2,
}
"""What is done, and how often beside the others."""
REFUSALS = {
    "FOLLOWING_LIMIT_REACHED",
    "BLOCKED",
    "NOT_FOLLOWING",
    "FAVOURITES_LIMIT_REACHED",
    "USER_NOT_DELETED",
}


class Graph:
    """What the service does to users, without the service around it."""

    def __init__(self, database: Database, caches: CacheStore) -> None:
        self.follows = Follows(FollowStore(database), caches, LIMIT)
        self.blocks = Blocks(BlockStore(database), caches, 5000)
        self.mutes = Mutes(MuteStore(database), caches, 5000)
        self.favourites = Favourites(FavouriteStore(database), caches, FAVOURITES)
        self.accounts = Accounts(AccountStore(database), caches)
        self.erasures = [Erasure(ErasureStore(database), slice_size) for slice_size in (1, 4, 500)]


class History(NamedTuple):
    """Users after many tasks changed things at once."""

    users: Sequence[int]
    doomed: Sequence[int]
    """Those of them who were deleted meanwhile."""
    acknowledged: Sequence[Change]
    """The changes that were acknowledged as such."""


async def wander(graph: Graph, users: Sequence[int], doomed: Sequence[int], chance: random.Random) -> list[Change]:
    """Do random things; the changes that were acknowledged as such."""
    changes: list[Change] = []
    for _ in range(STEPS):
        actor, other = chance.sample(users, 2)
        [kind] = chance.choices(list(STEPS_OF), list(STEPS_OF.values()))
        try:
            if kind == "erase":
                await chance.choice(graph.erasures).erase(chance.choice(doomed))
            elif kind == "mass follow":
                results = await graph.follows.follow_many(actor, chance.choices(users, k=4))
                changes += [(actor, r.followee_id, FOLLOWED) for r in results if r.outcome is Outcome.FOLLOWED]
            else:
                changes += await change_one(graph, kind, actor, other)
        except NotFound as error:
            assert int(error.metadata["user_id"]) in doomed
        except FailedPrecondition as error:
            assert error.reason in REFUSALS
    return changes


async def change_one(graph: Graph, kind: str, actor: int, other: int) -> list[Change]:
    """Change how one user stands to another one; the change, if it was one."""
    calls: dict[str, tuple[Callable[[int, int], Awaitable[bool]], int]] = {
        "follow": (graph.follows.follow, FOLLOWED),
        "unfollow": (graph.follows.unfollow, UNFOLLOWED),
        "block": (graph.blocks.block, BLOCKED),
        "unblock": (graph.blocks.unblock, UNBLOCKED),
        "mute": (graph.mutes.mute, MUTED),
        "unmute": (graph.mutes.unmute, UNMUTED),
        "favour": (graph.favourites.favour, FAVOURED),
        "unfavour": (graph.favourites.unfavour, UNFAVOURED),
    }
    call, event = calls[kind]
    return [(actor, other, event)] if await call(actor, other) else []


async def doom(graph: Graph, doomed: Sequence[int], chance: random.Random) -> None:
    """Delete users while others go on."""
    for user in doomed:
        await asyncio.sleep(chance.uniform(0.05, 0.3))
        await graph.accounts.delete(user)


@pytest.fixture(params=range(4))
async def history(
    request: pytest.FixtureRequest,
    open_database: OpenDatabase,
    make_users: MakeUsers,
    caches: CacheStore,
    monkeypatch: pytest.MonkeyPatch,
) -> History:
    """Nothing is tried again here: a deadlock would be an error."""
    monkeypatch.setattr(edge_store, "ATTEMPTS", 1)
    users = await make_users(USERS)
    graph = Graph(await open_database(postgres_pool_size=TASKS), caches)
    doomed = random.Random(request.param).sample(users, DOOMED)
    chances = [random.Random(f"{request.param} {task}") for task in range(TASKS)]
    *runs, _ = await asyncio.gather(
        *(wander(graph, users, doomed, chance) for chance in chances), doom(graph, doomed, random.Random(request.param))
    )
    await asyncio.gather(*(erase_all(erasure, user) for erasure in graph.erasures for user in doomed))
    return History(users, doomed, [change for changes in runs if changes for change in changes])


async def erase_all(erasure: Erasure, user: int) -> None:
    while not (await erasure.erase(user)).done:
        pass


async def events_among(sql: Sql, users: Sequence[int]) -> list[Change]:
    query = "SELECT payload FROM outbox WHERE key = ANY ($1) AND type = 'feed.events.v1.GraphEvent' ORDER BY id"
    rows = await sql.fetch(query, [str(user) for user in users])
    events = [events_pb2.GraphEvent.FromString(row["payload"]) for row in rows]
    return [(event.follower_id, event.followee_id, event.kind) for event in events]


async def edges_among(sql: Sql, table: str, actor: str, other: str, users: Sequence[int]) -> set[Edge]:
    query = f"SELECT {actor}, {other} FROM {table} WHERE {actor} = ANY ($1) OR {other} = ANY ($1)"  # noqa: S608
    return {(a, b) for a, b in await sql.fetch(query, users)}


async def test_random_changes_leave_everything_exact(history: History, store: Store, sql: Sql):
    users, doomed, acknowledged = history
    follows = await edges_among(sql, "follows", "follower_id", "followee_id", users)
    blocks = await edges_among(sql, "blocks", "blocker_id", "blocked_id", users)
    mutes = await edges_among(sql, "mutes", "muter_id", "muted_id", users)
    left = {user for edge in follows | blocks | mutes for user in edge}
    assert not left & set(doomed)
    assert not follows & {pair for a, b in blocks for pair in ((a, b), (b, a))}

    followers, following = Counter(b for _, b in follows), Counter(a for a, _ in follows)
    assert max(following.values()) <= LIMIT
    found = await store.users(users)
    assert {user.id for user in found} == set(users) - set(doomed)
    for user in found:
        assert (user.follower_count, user.following_count) == (followers[user.id], following[user.id])
    assert set(await sql.fetchval("SELECT array_agg(following_count) FROM users WHERE id = ANY ($1)", doomed)) == {0}
    assert not await sql.fetch("SELECT FROM follower_counts WHERE user_id = ANY ($1)", doomed)

    events = await events_among(sql, users)
    favourites = await edges_among(sql, "(SELECT * FROM follows WHERE favourite)", "follower_id", "followee_id", users)
    assert replay(events) == (follows, favourites)
    told, known = Counter(events), Counter(acknowledged)
    # Blocks and erasing end follows of which nobody is told but by the event.
    assert {change: n for change, n in (told - known).items() if change[2] != UNFOLLOWED} == {}
    assert known - told == Counter()
    assert {(a, b) for a, b, _ in acknowledged} & follows, "nothing much happened"
    assert favourites, "nothing much happened"


def replay(events: Sequence[Change]) -> tuple[set[Edge], set[Edge]]:
    """The follows that events leave behind, and those of them that are of favourites.

    Each event of a follow is a real change, nobody ever exceeds a limit, nobody follows across a block, and nobody is a
    favourite of one who does not follow them.
    """
    follows: set[Edge] = set()
    favourites: set[Edge] = set()
    blocks: set[Edge] = set()
    for actor, other, kind in events:
        edge = (actor, other)
        if kind in {FOLLOWED, UNFOLLOWED}:
            assert (edge in follows) == (kind == UNFOLLOWED)
            assert kind == UNFOLLOWED or not blocks & {edge, (other, actor)}
            follows ^= {edge}
            favourites &= follows
            assert sum(a == actor for a, _ in follows) <= LIMIT
        elif kind in {FAVOURED, UNFAVOURED}:
            assert edge in follows
            assert (edge in favourites) == (kind == UNFAVOURED)
            favourites ^= {edge}
            assert sum(a == actor for a, _ in favourites) <= FAVOURITES
        elif kind in {BLOCKED, UNBLOCKED}:
            assert (edge in blocks) == (kind == UNBLOCKED)
            blocks ^= {edge}
    return follows, favourites
