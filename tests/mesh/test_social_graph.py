"""The main job on real input: a whole college follows and posts through the gateway, and every home feed is right.

Dozens of its people are pulled, and half of the feeds are longer than what Redis holds of them.
"""

import asyncio
import itertools
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
import social_graph
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.oracle import Walk
from feedctl.walk import walk
from feedkit import keys
from settling import settled
from stored_keys import StoredKeys
from timelines import warmed
from walks import WalkOf, differences, each

THRESHOLD = 50
LENGTH = 60
SETTINGS = {
    "FEED_CELEBRITY_THRESHOLD": str(THRESHOLD),
    "FEED_TIMELINE_LENGTH": str(LENGTH),
    "FEED_CHUNK_SIZE": "20",
}
POSTS_EACH = 2
PROCESSES = ("post", "post-relay", "fanout", "graph", "hydrate", "graph-relay", "timeline", "gateway")
SECONDS_BETWEEN_KILLS = 3.0
SETTLE_SECONDS = 300.0
"""Longer than usual: a slow machine, on which something is always starting again, has few moments in which all is there."""


@dataclass(frozen=True)
class College:
    """A mesh in which everybody follows their friends and has posted, though its processes died all the while."""

    mesh: Mesh
    users: Sequence[int]
    killed: int
    """How many processes died meanwhile."""
    under_fire: Sequence[str]
    """What was wrong with feeds that were read in between, once settled."""


@pytest.fixture(scope="module")
def college(tmp_path_factory: pytest.TempPathFactory) -> Generator[College]:
    """One for all tests of this module."""
    with Mesh(SETTINGS, directory=tmp_path_factory.mktemp("college")) as mesh:
        yield asyncio.run(_populate(mesh))


async def _populate(mesh: Mesh) -> College:
    """People follow, read, and post, while every process dies in turn. Who has read has a timeline to be pushed to."""
    friends = social_graph.friendships()
    async with FeedApi(mesh.addresses.gateway, patient=True) as api, StoredKeys(mesh.addresses.redis) as stored:
        stop = asyncio.Event()
        killer = asyncio.create_task(kill_in_turn(mesh, stop))
        users = await each(friends, lambda person: api.create_user(f"Person {person}"))
        sociable = [person for person in friends if friends[person]]
        await each(sociable, lambda one: api.follow_many(users[one], [users[friend] for friend in friends[one]]))
        viewers = [users[person] for person in sociable]
        await warmed(mesh, api, stored, viewers, settle_seconds=SETTLE_SECONDS)
        authors = [person for person in friends for _ in range(POSTS_EACH)]
        random.Random(1).shuffle(authors)
        await each(authors, lambda person: api.create_post(users[person], f"Person {person} says hello"))
        await settled(mesh, SETTLE_SECONDS)
        few = random.Random(2).sample(users, 30)
        under_fire = await differences(mesh, api, few, 20, full_pages=False)
        stop.set()
        killed = await killer
        await settled(mesh, SETTLE_SECONDS)
    return College(mesh, users, killed, under_fire)


async def kill_in_turn(mesh: Mesh, stop: asyncio.Event) -> int:
    """SIGKILL and restart every service process, one every few seconds, until told to stop; how many died."""
    killed = 0
    for process in itertools.cycle(PROCESSES):
        await asyncio.to_thread(mesh.kill, process)
        await asyncio.to_thread(mesh.restart, process)
        killed += 1
        # Between two deaths there has to be time for work to be done that the next may destroy.
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_BETWEEN_KILLS):
                await stop.wait()
        if stop.is_set() and killed >= len(PROCESSES):
            break
    return killed


# --- three ways to walk -------------------------------------------------------------------------------------------------


def warm(api: FeedApi, stored: StoredKeys) -> WalkOf:
    """Whatever stands in Redis stays."""
    return api.walk_feed


def cold(api: FeedApi, stored: StoredKeys) -> WalkOf:
    """What stands in Redis for the viewer vanishes before the first page."""

    async def forget_and_walk(viewer: int, limit: int) -> Walk:
        await stored.delete_viewer(viewer)
        return await api.walk_feed(viewer, limit)

    return forget_and_walk


def alternating(api: FeedApi, stored: StoredKeys) -> WalkOf:
    """The viewer's timeline vanishes before every other page, and may stand again at the next."""

    async def forget_between_pages(viewer: int, limit: int) -> Walk:
        vanishes = itertools.cycle((False, True))

        async def read_page(cursor: str | None) -> dict[str, Any]:
            if next(vanishes):
                await stored.delete(keys.timeline(viewer))
            return await api.feed_page(viewer, limit, cursor)

        return await walk(viewer, limit, read_page)

    return forget_between_pages


Way = Callable[[FeedApi, StoredKeys], WalkOf]
WAYS: tuple[Way, ...] = (warm, cold, alternating)


# --- what has to be right ----------------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.timeout(900)
async def test_every_home_feed_equals_the_oracle_though_processes_were_killed(college: College) -> None:
    assert college.killed >= len(PROCESSES)
    assert college.under_fire == []
    async with FeedApi(college.mesh.addresses.gateway) as api:
        assert await differences(college.mesh, api, college.users, 50) == []


@pytest.mark.integration
async def test_dozens_of_its_people_are_pulled(college: College) -> None:
    friends = social_graph.friendships()
    famous = {college.users[person] for person in friends if len(friends[person]) >= THRESHOLD}
    pulled = {row["author_id"] for row in await rows(college.mesh, "graph", "SELECT author_id FROM pulled_authors")}
    assert pulled == famous
    assert len(pulled) >= 24


@pytest.mark.integration
async def test_every_timeline_holds_what_it_promises(college: College) -> None:
    friends = social_graph.friendships()
    author_of = {
        row["id"]: row["author_id"] for row in await rows(college.mesh, "post", "SELECT id, author_id FROM posts")
    }
    person_of = {user: person for person, user in enumerate(college.users)}
    async with StoredKeys(college.mesh.addresses.redis) as stored:
        for person in friends:
            if not friends[person]:
                continue
            viewer = college.users[person]
            tail, held = await stored.timeline(viewer), set(await stored.timeline_ids(viewer))
            assert tail is not None
            assert tail.length <= LENGTH
            following = {college.users[friend] for friend in friends[person]}
            above = {post for post, author in author_of.items() if author in following and post > tail.trailer.horizon}
            pushed = {post for post in above if len(friends[person_of[author_of[post]]]) < THRESHOLD}
            # Posts of those who are pulled may be in it or not.
            assert pushed <= {post for post in held if post > tail.trailer.horizon} <= above


async def rows(mesh: Mesh, database: str, query: str) -> list[asyncpg.Record]:
    """What a query says in the database of a service."""
    connection = await asyncpg.connect(mesh.addresses.postgres[database])
    try:
        return await connection.fetch(query)
    finally:
        await connection.close()


@pytest.mark.integration
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("limit", "viewers"), [(50, 120), (20, 60), (7, 30), (1, 6)])
async def test_walks_equal_the_oracle(college: College, way: Way, limit: int, viewers: int) -> None:
    await compare(college, way, limit, random.Random(limit).sample(college.users, viewers))


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limit", [50, 20, 7, 1])
async def test_all_walks_equal_the_oracle(college: College, way: Way, limit: int) -> None:
    await compare(college, way, limit, college.users)


async def compare(college: College, way: Way, limit: int, viewers: Sequence[int]) -> None:
    """Walk the feeds of these viewers in one of the ways, and compare with the oracle."""
    addresses = college.mesh.addresses
    async with FeedApi(addresses.gateway) as api, StoredKeys(addresses.redis) as stored:
        assert await differences(college.mesh, api, viewers, limit, way(api, stored)) == []


def test_the_graph_is_as_large_as_the_real_one() -> None:
    friends = social_graph.friendships()
    assert len(friends) == social_graph.PEOPLE
    assert sum(map(len, friends.values())) == 2 * social_graph.FRIENDSHIPS
