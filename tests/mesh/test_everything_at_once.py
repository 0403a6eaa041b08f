"""Many people do everything at once, while processes and stores die at random: no promise is broken, and all settles."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import limits
import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from outages import MORTAL
from settling import settled
from stored_keys import StoredKeys
from timelines import users
from walks import differences

PEOPLE = 40
# Some of them are followed by more in the end, some are not.
SETTINGS = {**limits.SETTINGS, "FEED_CELEBRITY_THRESHOLD": "8"}
HANDS = 8
"""How many act at once, each for people of its own, so that it knows what these have to see."""


class Hand:
    """Acts for some people, and looks at their feeds after each act."""

    def __init__(self, api: FeedApi, mine: Sequence[int], everybody: Sequence[int], dice: random.Random) -> None:
        self._api = api
        self._mine = mine
        self._everybody = everybody
        self._dice = dice
        self._follows: dict[int, set[int]] = {person: set() for person in mine}
        self._posts: dict[int, list[int]] = {person: [] for person in mine}

    async def act_until(self, stop: asyncio.Event) -> int:
        """Act again and again; how often."""
        for acts in itertools.count(1):
            person = self._dice.choice(self._mine)
            act = self._dice.choices([self._post, self._follow, self._unfollow, self._delete], weights=[5, 3, 1, 1])
            await act[0](person)
            await self._look(person)
            if stop.is_set():
                return acts
        raise AssertionError

    async def _post(self, person: int) -> None:
        self._posts[person].append(int((await self._api.create_post(person, "Something"))["id"]))

    async def _follow(self, person: int) -> None:
        other = self._dice.choice(self._everybody)
        if other != person:
            await self._api.follow(person, other)
            self._follows[person].add(other)

    async def _unfollow(self, person: int) -> None:
        if follows := sorted(self._follows[person]):
            other = self._dice.choice(follows)
            await self._api.unfollow(person, other)
            self._follows[person].discard(other)

    async def _delete(self, person: int) -> None:
        if posts := self._posts[person]:
            post = posts.pop(self._dice.randrange(len(posts)))
            await self._api.delete_post(person, post)

    async def _look(self, person: int) -> None:
        """What a page shows at once: one's own posts and no deleted ones, of nobody who is not followed, in order."""
        page = await self._api.feed(person, limit=str(self._dice.choice((1, 5, 20, 50))))
        authors = {int(item["id"]): int(item["authorId"]) for item in page["items"]}
        shown = list(authors)
        assert shown == sorted(authors, reverse=True)
        assert set(authors.values()) <= self._follows[person] | {person}
        # A page may end early while services die, and then goes on.
        down_to = (shown[-1] if shown else float("inf")) if "nextCursor" in page else 0
        assert [post for post in shown if authors[post] == person] == [
            post for post in reversed(self._posts[person]) if post >= down_to
        ]


async def destroy_until(stop: asyncio.Event, mesh: Mesh, dice: random.Random) -> int:
    """Kill one after another, each for up to 1.5 s, with up to 3 s between; how many."""
    for killed in itertools.count(1):
        victim = dice.choice(MORTAL)
        await asyncio.to_thread(mesh.kill, victim)
        await asyncio.sleep(1.5 * dice.random())
        await asyncio.to_thread(mesh.restart, victim)
        if stop.is_set():
            return killed
        await asyncio.sleep(3 * dice.random())
    raise AssertionError


async def live(mesh: Mesh, seed: int, seconds: float) -> None:
    """Let people live, and compare their feeds with the oracle in the end."""
    stop = asyncio.Event()
    async with FeedApi(mesh.addresses.gateway, patient=True) as api, StoredKeys(mesh.addresses.redis) as stored:
        people = await users(api, "Person", PEOPLE)
        hands = [Hand(api, people[hand::HANDS], people, random.Random(seed * 100 + hand)) for hand in range(HANDS)]
        async with asyncio.TaskGroup() as tasks:
            destruction = tasks.create_task(destroy_until(stop, mesh, random.Random(seed)))
            acts = [tasks.create_task(hand.act_until(stop)) for hand in hands]
            await asyncio.sleep(seconds)
            stop.set()
        print(f"\n{sum(task.result() for task in acts)} acts, {destruction.result()} deaths")
        await settled(mesh)
        for limit in (50, 7):
            assert await differences(mesh, api, people, limit) == []
        await stored.flush()
        assert await differences(mesh, api, people, 20) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
async def test_no_promise_is_broken_whatever_dies(tmp_path: Path, seed: int) -> None:
    with Mesh(SETTINGS, directory=tmp_path) as mesh:
        await live(mesh, seed, seconds=60)


@pytest.mark.integration
@pytest.mark.timeout(600)
async def test_no_promise_is_broken_within_twenty_seconds(tmp_path: Path) -> None:
    with Mesh(SETTINGS, directory=tmp_path) as mesh:
        await live(mesh, seed=98, seconds=20)
