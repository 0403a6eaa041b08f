"""Random follows, unfollows and mass follows at the same time: the counts, the limit and the events stay exact."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import FailedPrecondition
from feedkit.postgres import Database
from graph_service.cache_store import CacheStore
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows, Outcome
from graph_service.store import Store

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
Change = tuple[int, int, int]
"""Follower, followee and the kind of the event that the change makes."""

USERS, LIMIT, TASKS, STEPS = 12, 5, 24, 25
FOLLOWED = events_pb2.GRAPH_EVENT_KIND_FOLLOWED
UNFOLLOWED = events_pb2.GRAPH_EVENT_KIND_UNFOLLOWED


async def wander(follows: Follows, users: list[int], chance: random.Random) -> list[Change]:
    """Do random things; the changes that were acknowledged as such."""
    changes: list[Change] = []
    for _ in range(STEPS):
        actor, other = chance.sample(users, 2)
        match chance.choice(["follow", "unfollow", "mass follow"]):
            case "follow":
                try:
                    if await follows.follow(actor, other):
                        changes.append((actor, other, FOLLOWED))
                except FailedPrecondition as error:
                    assert error.reason == "FOLLOWING_LIMIT_REACHED"
            case "unfollow":
                if await follows.unfollow(actor, other):
                    changes.append((actor, other, UNFOLLOWED))
            case _:
                results = await follows.follow_many(actor, chance.choices(users, k=4))
                changes += [(actor, r.followee_id, FOLLOWED) for r in results if r.outcome is Outcome.FOLLOWED]
    return changes


async def events_among(sql: "asyncpg.Connection[asyncpg.Record]", users: list[int]) -> list[Change]:
    rows = await sql.fetch("SELECT payload FROM outbox WHERE key = ANY ($1) ORDER BY id", [str(user) for user in users])
    events = [events_pb2.GraphEvent.FromString(row["payload"]) for row in rows]
    return [(event.follower_id, event.followee_id, event.kind) for event in events]


@pytest.fixture(params=range(4))
async def history(
    request: pytest.FixtureRequest,
    open_database: OpenDatabase,
    make_users: MakeUsers,
    caches: CacheStore,
) -> tuple[list[int], list[Change]]:
    """Users after many tasks changed their follows at once, and the changes that were acknowledged."""
    users = await make_users(USERS)
    follows = Follows(FollowStore(await open_database(postgres_pool_size=TASKS)), caches, LIMIT)
    runs = [wander(follows, users, random.Random(f"{request.param} {task}")) for task in range(TASKS)]
    return users, [change for changes in await asyncio.gather(*runs) for change in changes]


async def test_random_changes_leave_everything_exact(
    history: tuple[list[int], list[Change]], store: Store, sql: "asyncpg.Connection[asyncpg.Record]"
):
    users, acknowledged = history
    rows = await sql.fetch("SELECT follower_id, followee_id FROM follows WHERE follower_id = ANY ($1)", users)
    edges = {(row["follower_id"], row["followee_id"]) for row in rows}
    followers, following = Counter(b for _, b in edges), Counter(a for a, _ in edges)
    assert max(following.values()) <= LIMIT
    for user in await store.users(users):
        assert (user.follower_count, user.following_count) == (followers[user.id], following[user.id])

    events = await events_among(sql, users)
    assert Counter(events) == Counter(acknowledged)
    assert replay(events) == edges


def replay(events: list[Change]) -> set[tuple[int, int]]:
    """The follows that events leave behind when each of them is a real change, and nobody ever exceeds the limit."""
    edges: set[tuple[int, int]] = set()
    for follower, followee, kind in events:
        edge = (follower, followee)
        assert (edge in edges) == (kind == UNFOLLOWED)
        edges ^= {edge}
        assert sum(a == follower for a, _ in edges) <= LIMIT
    return edges
