"""Runs a programme on a real mesh, and holds what everybody sees against what each moment promises.

After every act, settled or not, whoever reads next sees what must show at once, everywhere; and nothing that has once been
certain is lost again. Whenever the mesh says that it has settled, every walk equals the ledger and the oracle.
"""

import asyncio
import random
import re
import time
from collections.abc import Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.oracle import faults
from feedkit import keys
from limits import PULLED_STALENESS_SECONDS
from redis.exceptions import ConnectionError as RedisConnectionError
from settling import settled
from stored_keys import StoredKeys
from walks import oracle, short_pages

from tests.oracle.acting import Acting
from tests.oracle.difference import Difference
from tests.oracle.fate import FORGETFUL, Fates, meanwhile
from tests.oracle.ledger import Ledger
from tests.oracle.reading import Reading
from tests.oracle.steps import (
    POST_KEY,
    Act,
    Alone,
    Bind,
    Blow,
    DaysPass,
    Delete,
    Edit,
    Everybody,
    Evict,
    Fate,
    ForgetEverything,
    ForgetPerson,
    GoOn,
    Judge,
    KeepCursor,
    Look,
    Loose,
    LoseBroker,
    Move,
    Race,
    Replay,
    Set,
    Settle,
    Step,
    Tie,
    Together,
)

STEP_SECONDS = 150.0
"""Longer than any step may take on a busy machine; one that takes longer hangs."""
READERS = 3
"""How many read at once what is being changed."""
RACE_SECONDS = 0.004
"""About as long as one of them, and the change, take."""
_KEYS = {
    "tl": keys.timeline,
    "ctx": keys.context,
    "hidden": keys.hidden,
    "own": keys.own,
    "recents": keys.recents,
    "user": keys.user,
}


async def live(mesh: Mesh, steps: Sequence[Step], people: int) -> None:
    """Run a programme, and settle and compare at its end. Raises Difference, or what else went wrong; the mesh is restored
    in any case."""
    async with FeedApi(mesh.addresses.gateway, patient=True) as api, StoredKeys(mesh.addresses.redis) as stored:
        life = Life(mesh, api, stored)
        try:
            await life.begin(people)
            for number, step in enumerate(steps, 1):
                await life.take(number, step)
            await life.take(len(steps) + 1, Settle(2))
        finally:
            await life.fates.restore()


class Life:
    """Some people, from when they sign up until the end of a programme."""

    def __init__(self, mesh: Mesh, api: FeedApi, stored: StoredKeys) -> None:
        self._mesh = mesh
        self._api = api
        self._stored = stored
        self._ledger = Ledger()
        self._acting = Acting(mesh, api, self._ledger)
        self._reading = Reading(api, self._ledger)
        self._cursors: list[tuple[int, str]] = []
        self._forgotten_at = 0.0
        self.fates = Fates(mesh, stored)

    async def begin(self, people: int) -> None:
        """Let people sign up, after whatever was before has settled."""
        await settled(self._mesh)
        await self.fates.begin()
        self._ledger.people += [await self._api.create_user(f"Person {number}") for number in range(people)]

    async def take(self, number: int, step: Step) -> None:
        """Take a step. Whatever goes wrong tells in which."""
        try:
            async with asyncio.timeout(STEP_SECONDS):
                await self._take(step)
                self._reading.everybody_is_known()
        except Exception as error:
            error.add_note(f"in step {number}, {step!r}")
            error.add_note(self._legend(str(error)))
            raise

    def _legend(self, words: str) -> str:
        """Who is meant by the ids in some words."""
        meant = set(map(int, re.findall(r"\d+", words)))
        people = [f"{one} is person {place}" for place, one in enumerate(self._ledger.people) if one in meant]
        posts = [
            f"{one} is post {number}, of {self._ledger.posts[one].author}"
            for number, one in self._acting.written.items()
            if one in meant
        ]
        return "; ".join(people + posts)

    async def _take(self, step: Step) -> None:
        match step:
            case Alone(act, eyes):
                await self._acting.act(act)
                await self._look_after(act, eyes)
            case Together(threads, fate):
                async with meanwhile(self.fates, fate):
                    await _all_of(map(self._go_through, threads))
                self._note_oblivion(fate)
            case Race(rounds, reader):
                for act, evictions in rounds:
                    await self._race(act, evictions, reader)
            case Everybody(limit):
                await self._look(self._ledger.people, limit)
            case Settle(limit):
                await self._settle(limit)
            case KeepCursor(person, limit):
                await self._keep_cursor(self._ledger.people[person], limit)
            case GoOn(cursor, limit):
                if self._cursors:
                    viewer, position = self._cursors[cursor % len(self._cursors)]
                    await self._reading.feed(viewer, limit, position)
            case _:
                await self._suffer(step)

    async def _suffer(self, fate: Step) -> None:
        match fate:
            case Fate():
                await self.fates.befall(fate)
                self._note_oblivion(fate)
            case Evict():
                await self._evict(fate)
            case ForgetEverything():
                await self.fates.forget_everything()
                self._forgotten_at = time.monotonic()
            case ForgetPerson(person):
                await self.fates.forget(key(self._ledger.people[person]) for key in _KEYS.values())
            case LoseBroker():
                await self.fates.lose_broker()
            case Replay():
                await self.fates.replay()
            case DaysPass(days):
                await self.fates.days_pass(days, self._ledger.people)
            case Set(name, value):
                await self.fates.set(name, value)
            case _:
                raise TypeError(fate)

    def _note_oblivion(self, fate: Fate | None) -> None:
        if fate is not None and fate.process in FORGETFUL and fate.blow is not Blow.FREEZE:
            self._forgotten_at = time.monotonic()

    async def _evict(self, evicted: Evict) -> None:
        # A Redis that is down just now has forgotten all of it.
        with suppress(RedisConnectionError):
            await self._forget(evicted)

    async def _forget(self, evicted: Evict) -> None:
        if evicted.kind != POST_KEY:
            await self.fates.forget([_KEYS[evicted.kind](self._ledger.people[evicted.number])])
        elif evicted.number in self._acting.written:
            await self.fates.forget([keys.post(self._acting.written[evicted.number])])

    # --- several at once -------------------------------------------------------------------------------------------------

    async def _go_through(self, moves: Iterable[Move]) -> None:
        for move in moves:
            match move:
                case Evict():
                    await self._evict(move)
                case Look(person, limit):
                    await self._look([self._ledger.people[person]], limit)
                case _:
                    await self._acting.act(move)
                    await self._look_after(move, ())

    async def _race(self, act: Act, evictions: Sequence[Evict], reader: int) -> None:
        """Keys vanish; whoever reads then asks the truth, and may be about to fill in what is being changed."""
        for evicted in evictions:
            await self._evict(evicted)
        viewer = self._ledger.people[reader]

        async def read(place: int) -> None:
            await asyncio.sleep(random.random() * RACE_SECONDS * place)
            await self._reading.feed(viewer, 50)
            await self._look_elsewhere([viewer], act)

        async def change() -> None:
            await asyncio.sleep(random.random() * RACE_SECONDS)
            await self._acting.act(act)

        await _all_of([change(), *map(read, range(READERS))])
        # The very next reads: what the others have filled in meanwhile must not be from before.
        await self._reading.feed(viewer, 50)
        await self._look_elsewhere([viewer], act)

    # --- who looks -------------------------------------------------------------------------------------------------------

    async def _look_after(self, act: Act, eyes: Collection[int]) -> None:
        """Whom an act concerns looks at once, and others too."""
        viewers = [self._ledger.people[person] for person in dict.fromkeys((*_concerned(act), *eyes))]
        await self._look(viewers, 50)
        await self._look_elsewhere(viewers, act)

    async def _look(self, viewers: Iterable[int], limit: int) -> None:
        await _all_of(read(viewer, limit) for viewer in viewers for read in (self._reading.feed, self._reading.ranked))

    async def _look_elsewhere(self, viewers: Sequence[int], act: Act) -> None:
        if not _subjects(act):
            return
        authors = [self._ledger.people[person] for person in _subjects(act)]
        living = [viewer for viewer in viewers if viewer in self._ledger.living()]
        await _all_of(self._reading.elsewhere(viewer, authors) for viewer in (*living, None))

    async def _keep_cursor(self, viewer: int, limit: int) -> None:
        cursor = await self._reading.page(viewer, limit)
        if cursor is not None:
            self._cursors.append((viewer, cursor))

    # --- the whole truth -------------------------------------------------------------------------------------------------

    async def _settle(self, limit: int) -> None:
        await settled(self._mesh)
        # The one key that copies nothing tells how long a `timeline` may not know of a pulled post yet.
        await asyncio.sleep(self._forgotten_at + PULLED_STALENESS_SECONDS - time.monotonic())
        await _all_of(self._compare(viewer, size) for viewer in self._ledger.people for size in (limit, 50))
        await self._reading.accounts()
        await _all_of(
            self._go_on_exactly(viewer, cursor, limit)
            for viewer, cursor in self._cursors
            if viewer in self._ledger.living()
        )
        async with oracle(self._mesh) as truth:
            for viewer in self._ledger.living():
                right = self._ledger.feed(viewer)
                if (told := await truth.home_timeline(viewer)) != right:
                    raise Difference(f"the oracle says {told} for {viewer}, the ledger {right}")
                self._ledger.certain[viewer] = set(right)

    async def _compare(self, viewer: int, limit: int) -> None:
        walk = await self._reading.feed(viewer, limit)
        if walk is not None:
            wrong = faults(self._ledger.feed(viewer), walk) + short_pages(walk)
            if wrong:
                held = await self._stored.timeline(viewer)
                raise Difference(f"settled, and the feed of {viewer}, {limit} a page: {'; '.join(wrong)}. Held: {held}")
        ranked, right = await self._reading.ranked(viewer, limit), set(self._ledger.feed(viewer))
        if ranked is not None and ranked != right:
            raise Difference(
                f"settled, and ranked for {viewer}, {limit} a page: {sorted(ranked ^ right)} too many or few"
            )

    async def _go_on_exactly(self, viewer: int, cursor: str, limit: int) -> None:
        walk = await self._reading.feed(viewer, limit, cursor)
        below = int(cursor.partition(":")[2])
        right = [post for post in self._ledger.feed(viewer) if post < below]
        if walk is not None and walk.post_ids != right:
            raise Difference(f"settled, and the feed of {viewer} from {cursor}: {walk.post_ids} instead of {right}")


def _concerned(act: Act) -> tuple[int, ...]:
    """Who sees at once what an act does."""
    match act:
        case Bind(person, Tie.BLOCK, other) | Loose(person, Tie.BLOCK, other):
            return (person, other)
        case _:
            return (act.person,)


def _subjects(act: Act) -> tuple[int, ...]:
    """Whose posts an act shows or hides."""
    match act:
        case Bind(person, Tie.BLOCK, other) | Loose(person, Tie.BLOCK, other):
            return (person, other)
        case Bind(_, Tie.MUTE, other) | Loose(_, Tie.MUTE, other):
            return (other,)
        case Edit() | Delete() | Judge():
            return (act.person,)
        case _:
            return ()


async def _all_of(work: Iterable[Coroutine[Any, Any, Any]]) -> None:
    """Do all of it at once. The first error is raised, when everything has ended."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
