"""The main job on real input: a whole college follows and posts through the gateway, and every home feed is right."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
import social_graph
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.oracle import Oracle, faults

POSTS_EACH = 2
CONCURRENCY = 12
PROCESSES = ("post", "graph", "hydrate", "timeline", "gateway")
SECONDS_BETWEEN_KILLS = 3.0

Item = TypeVar("Item")
Result = TypeVar("Result")


async def each(items: Iterable[Item], work: Callable[[Item], Awaitable[Result]]) -> list[Result]:
    """Do the work for every item, some at a time."""
    gate = asyncio.Semaphore(CONCURRENCY)

    async def gated(item: Item) -> Result:
        async with gate:
            return await work(item)

    return await asyncio.gather(*map(gated, items))


async def populate(api: FeedApi, friends: Mapping[int, Sequence[int]]) -> list[int]:
    """Make everybody, their follows and their posts; the user ids, by person."""
    users = await each(friends, lambda person: api.create_user(f"Person {person}"))
    sociable = [person for person in friends if friends[person]]
    await each(sociable, lambda person: api.follow_many(users[person], [users[friend] for friend in friends[person]]))
    authors = [person for person in friends for _ in range(POSTS_EACH)]
    random.Random(1).shuffle(authors)
    await each(authors, lambda person: api.create_post(users[person], f"Person {person} says hello"))
    return users


async def differences(mesh: Mesh, api: FeedApi, viewers: Sequence[int], limit: int) -> list[str]:
    """What is wrong with the walks of these viewers, compared with the oracle."""
    walks = await each(viewers, lambda viewer: api.walk_feed(viewer, limit))
    postgres = mesh.addresses.postgres
    wrong: list[str] = []
    async with Oracle(graph_dsn=postgres["graph"], post_dsn=postgres["post"]) as oracle:
        for done in walks:
            for fault in faults(await oracle.home_timeline(done.viewer_id), done):
                wrong.append(f"viewer {done.viewer_id}, {limit} a page: {fault}")  # noqa: PERF401 (one line too many)
    return wrong


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


@pytest.mark.integration
@pytest.mark.timeout(900)
async def test_every_home_feed_equals_the_oracle_though_processes_are_killed(tmp_path: Path) -> None:
    friends = social_graph.friendships()
    with Mesh(directory=tmp_path) as mesh:
        async with FeedApi(mesh.addresses.gateway, patient=True) as api:
            stop = asyncio.Event()
            killer = asyncio.create_task(kill_in_turn(mesh, stop))
            users = await populate(api, friends)
            few = random.Random(2).sample(users, 30)
            under_fire = await differences(mesh, api, few, 20)
            stop.set()
            assert await killer >= 5
            assert under_fire == []

            assert await differences(mesh, api, users, 50) == []
            assert await differences(mesh, api, few, 20) == []
            assert await differences(mesh, api, few, 7) == []
            assert await differences(mesh, api, few[:10], 1) == []


@pytest.mark.long
async def test_all_walks_at_1_7_20_and_50_a_page_equal_the_oracle(tmp_path: Path) -> None:
    friends = social_graph.friendships()
    with Mesh(directory=tmp_path) as mesh:
        async with FeedApi(mesh.addresses.gateway, patient=True) as api:
            users = await populate(api, friends)
            for limit in (50, 20, 7, 1):
                assert await differences(mesh, api, users, limit) == []


def test_the_graph_is_as_large_as_the_real_one() -> None:
    friends = social_graph.friendships()
    assert len(friends) == social_graph.PEOPLE
    assert sum(map(len, friends.values())) == 2 * social_graph.FRIENDSHIPS
