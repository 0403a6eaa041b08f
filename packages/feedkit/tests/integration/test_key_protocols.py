"""The protocols that the scripts are steps of come to the truth, however their steps interleave, repeat and break off.

Every protocol here is a generator that stops after each step. Chance, from a seed that a failure tells, says which takes
its next step, which one dies and is delivered again from its beginning, and when a key is evicted. The truth is a few
Python variables, Redis is real. How the protocols are served in earnest is tested where they are.
"""

import random
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeAlias

import pytest
from feedkit import key_scripts, keys

pytestmark = [
    pytest.mark.integration,
    # What can come between two steps does not depend on where a key is.
    pytest.mark.parametrize("store", ["single"], indirect=True, scope="session"),
]

Run = Callable[..., list[Any]]
Steps: TypeAlias = Generator[None]
Protocol: TypeAlias = Callable[[], Steps]

SCHEDULES = pytest.mark.parametrize(
    "schedules", [range(300), pytest.param(range(300, 10_000), marks=pytest.mark.long)], ids=["some", "many"]
)
"""Seeds. Which rule of a script is not kept shows within some hundreds, of a few rare ones within some thousands."""
LIFE_MS = 500_000
FIRST_ID = 2**53


class Interleaving:
    """Protocols under way, and the chance that drives them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._running: list[tuple[Protocol, Steps]] = []
        self._speeds: list[float] = []

    def start(self, protocol: Protocol) -> None:
        """Begin one; it takes no step yet."""
        self._running.append((protocol, protocol()))
        self._speeds.append(1.0)

    def step(self) -> None:
        """Let one take its next step, and perhaps be slow with the one after, so that much can come between."""
        place = self._any()
        self._speeds[place] = self.chance.choices([1.0, 0.01], [5, 1])[0]
        if next(self._running[place][1], "ended") == "ended":
            self._end(place)

    def die(self) -> None:
        """Let one die where it is, and be delivered once more."""
        self.start(self._end(self._any()))

    def _any(self) -> int:
        [place] = self.chance.choices(range(len(self._running)), self._speeds)
        return place

    def _end(self, place: int) -> Protocol:
        del self._speeds[place]
        protocol, _ = self._running.pop(place)
        return protocol

    def play(self, protocols: Mapping[Protocol, float], evict: Callable[[], None]) -> None:
        """Start protocols, those with more weight more often, and let them run, die and lose the key for a while.

        How often each of this happens is different in every schedule: what only shows where something else is rare, or
        where much is under way at once, would hardly be met otherwise.
        """
        weights = [weight * self.chance.random() for weight in protocols.values()]
        starts, deaths = self.chance.random() * 0.3, self.chance.choice([0, 0, 0.05])
        evictions = self.chance.choice([0, 0, 0.03])
        for _ in range(self.chance.randrange(80)):
            if not self._running or self.chance.random() < starts:
                self.start(self.chance.choices(list(protocols), weights)[0])
            elif self.chance.random() < deaths:
                self.die()
            elif self.chance.random() < evictions:
                evict()
            else:
                self.step()

    def settle(self) -> None:
        """Let all come to their ends."""
        while self._running:
            self.step()


# --- a home timeline --------------------------------------------------------------------------------------------------


class Home:
    """One viewer's home timeline, and the truth that it is made of."""

    VIEWER = 7
    AUTHORS = (1, 2)

    def __init__(self, run: Run, interleaving: Interleaving) -> None:
        self._run = run
        self._interleaving = interleaving
        self._chance = interleaving.chance
        self.posts: dict[int, int] = {}
        """Authors by post id, committed."""
        self.followees: set[int] = set()
        self._active = False
        self._next_id = FIRST_ID
        self._lengths = self._chance.choice([(2,), (3,), (2, 4), (1, 2, 3)])
        """The lengths that workers know; more than one while the setting is being changed."""
        self.evict()

    def new_id(self) -> int:
        """An id greater than all before; its post may be committed much later."""
        self._next_id += 1
        return self._next_id

    def author(self) -> int:
        """Any author."""
        return self._chance.choice(self.AUTHORS)

    def create_post(self) -> Steps:
        """Commit, and have the event delivered once or twice."""
        post_id, author = self.new_id(), self.author()
        if self._chance.random() < 0.5:
            yield
        self.posts[post_id] = author
        for _ in range(self._chance.randint(1, 2)):
            self._interleaving.start(lambda: self.push(post_id, author))
        yield

    def push(self, post_id: int, author: int) -> Steps:
        """Add a post to the timelines of those who follow its author now and are active."""
        if self._active and author in self.followees:
            yield
            entries = keys.encode_entries([(post_id, author)])
            self._run(key_scripts.push(self.VIEWER, entries, self._chance.choice(self._lengths)))
        yield

    def follow(self) -> Steps:
        """Commit, then reconcile."""
        author = self.author()
        self.followees.add(author)
        self._interleaving.start(lambda: self.reconcile(author))
        yield

    def unfollow(self) -> Steps:
        """Commit, then reconcile."""
        author = self.author()
        self.followees.discard(author)
        self._interleaving.start(lambda: self.reconcile(author))
        yield

    def reconcile(self, author: int) -> Steps:
        """Epoch and horizon, the edge, the author's posts above the horizon, the script."""
        most = self._chance.choice(self._lengths)
        while (trailer := self.trailer()) is not None:
            yield
            followed = author in self.followees
            yield
            if followed:
                entries, left_out = self._newest({author}, most, above=trailer.horizon)
                yield
                command = key_scripts.add_author(self.VIEWER, trailer.epoch, author, left_out, entries, most)
            else:
                command = key_scripts.remove_author(self.VIEWER, trailer.epoch, author, most)
            if self._run(command) == [1]:
                return
            yield

    def rebuild(self) -> Steps:
        """Activity, an empty timeline from now on, its epoch, the followees, their newest posts, the script."""
        most = self._chance.choice(self._lengths)
        while True:
            self._active = True
            yield
            now = self.new_id()
            self._run(key_scripts.delete_timeline(self.VIEWER))
            yield
            self._run(key_scripts.create_timeline(self.VIEWER, now, LIFE_MS))
            yield
            trailer = self.trailer()
            yield
            followees = set(self.followees)
            yield
            entries, left_out = self._newest(followees, most)
            yield
            if trailer and self._run(key_scripts.rebuild(self.VIEWER, trailer.epoch, left_out, entries, most)) == [1]:
                return

    def evict(self) -> None:
        """The timeline vanishes."""
        self._run(key_scripts.delete_timeline(self.VIEWER))

    def trailer(self) -> keys.Trailer | None:
        """What the timeline says of itself."""
        [raw] = self._run(key_scripts.read_timeline(self.VIEWER, 0))
        tail = keys.decode_timeline(raw)
        return None if tail is None else tail.trailer

    def _newest(self, authors: set[int], most: int, above: int = 0) -> tuple[bytes, int]:
        """The newest posts of some authors as a script takes them, and the newest one that is not among them."""
        chosen = self.truth(authors, above)[-most - 1 :]
        left_out = chosen.pop(0) if len(chosen) > most else 0
        return keys.encode_entries([(post_id, self.posts[post_id]) for post_id in chosen]), left_out

    def truth(self, authors: set[int], above: int = 0) -> list[int]:
        """The posts of some authors above an id, oldest first."""
        return sorted(post_id for post_id, author in self.posts.items() if author in authors and post_id > above)

    def check(self, seed: int) -> None:
        """Above its horizon the timeline is the truth, seen as a reader sees it."""
        [raw] = self._run(key_scripts.read_whole_timeline(self.VIEWER))
        tail = keys.decode_timeline(raw)
        if tail is None:
            return
        entries = zip(*tail.columns(0, tail.length), strict=True)
        seen = [post for post, author in entries if post > tail.trailer.horizon and author in self.followees]
        assert seen == self.truth(self.followees, tail.trailer.horizon), f"schedule {seed}"

    def check_depth_after_a_rebuild(self, seed: int) -> None:
        """A rebuild makes a timeline reach down as far as it may."""
        self._lengths = (3,)
        self._interleaving.start(self.rebuild)
        self._interleaving.settle()
        self.check(seed)
        trailer = self.trailer()
        assert trailer is not None
        assert [trailer.horizon] == (self.truth(self.followees)[-4:-3] or [0]), f"schedule {seed}"


@SCHEDULES
def test_a_settled_timeline_is_the_truth_above_its_horizon_and_a_rebuild_lowers_that(
    run: Run, schedules: range
) -> None:
    for seed in schedules:
        interleaving = Interleaving(seed)
        home = Home(run, interleaving)
        home.followees |= {home.author(), home.author()}
        home.posts |= {home.new_id(): home.author() for _ in range(interleaving.chance.randrange(6))}
        protocols = {
            home.create_post: 4.0,
            home.follow: 0.6,
            home.unfollow: 0.4,
            lambda home=home: home.reconcile(home.author()): 0.2,
            home.rebuild: 0.3,
        }
        interleaving.start(home.rebuild)
        interleaving.play(protocols, home.evict)
        interleaving.settle()
        home.check(seed)
        home.check_depth_after_a_rebuild(seed)


# --- lists of one author's posts --------------------------------------------------------------------------------------


class Own:
    """One author's list."""

    KEY = keys.own(1)

    def __init__(self, run: Run, interleaving: Interleaving) -> None:
        self._run = run
        self._interleaving = interleaving
        self._chance = interleaving.chance
        self._lengths = self._chance.choice([(1,), (2,), (1, 3)])
        self._posts: set[int] = set()
        self._next_id = FIRST_ID
        self.evict()

    def create_post(self) -> Steps:
        """Commit and add; whoever handles the event adds once more."""
        self._next_id += 1
        post_id = self._next_id
        yield
        self._posts.add(post_id)
        self._interleaving.start(lambda: self.add(post_id))
        yield
        self._run(key_scripts.add_to_list(self.KEY, post_id, self._chance.choice(self._lengths)))

    def add(self, post_id: int) -> Steps:
        """What the event does."""
        yield
        self._run(key_scripts.add_to_list(self.KEY, post_id, self._chance.choice(self._lengths)))

    def fill(self) -> Steps:
        """By lease."""
        most = self._chance.choice(self._lengths)
        token = key_scripts.new_token()
        [leased] = self._run(key_scripts.take_lease(self.KEY, token))
        yield
        if leased is None:
            return
        newest = sorted(self._posts, reverse=True)[: most + 1]
        left_out = newest.pop() if len(newest) > most else 0
        yield
        self._run(key_scripts.fill(self.KEY, token, keys.encode_post_list(newest, left_out), LIFE_MS))

    def evict(self) -> None:
        """The list, or the lease, vanishes."""
        self._run(key_scripts.forget(self.KEY))

    def check(self, seed: int) -> None:
        """Above its horizon the list is the truth."""
        [raw] = self._run(key_scripts.get(self.KEY))
        payload = keys.payload(raw)
        if payload is not None:
            post_ids, horizon = keys.decode_post_list(payload)
            truth = sorted((post_id for post_id in self._posts if post_id > horizon), reverse=True)
            assert list(post_ids) == truth, f"schedule {seed}"


@SCHEDULES
def test_a_settled_list_is_the_truth_above_its_horizon(run: Run, schedules: range) -> None:
    for seed in schedules:
        interleaving = Interleaving(seed)
        own = Own(run, interleaving)
        interleaving.play({own.create_post: 1.0, own.fill: 1.0}, own.evict)
        interleaving.settle()
        own.check(seed)


# --- a value that must show at once -----------------------------------------------------------------------------------


class Cached:
    """One cached value; the truth is a version that grows with every change."""

    KEY = keys.context(1)

    def __init__(self, run: Run, interleaving: Interleaving) -> None:
        self._run = run
        self._interleaving = interleaving
        self._version = 1
        self._acknowledged = 0
        self.evict()

    def change(self) -> Steps:
        """Commit, delete the key, acknowledge; whoever handles the event deletes it once more."""
        self._version += 1
        version = self._version
        self._interleaving.start(self.handle_event)
        yield
        self._run(key_scripts.forget(self.KEY))
        self._acknowledged = max(self._acknowledged, version)

    def handle_event(self) -> Steps:
        """Delete the key."""
        yield
        self._run(key_scripts.forget(self.KEY))

    def read(self) -> Steps:
        """A reader, who fills in what is not there."""
        if self.cached() is not None:
            return
        token = key_scripts.new_token()
        [leased] = self._run(key_scripts.take_lease(self.KEY, token))
        yield
        version = self._version
        yield
        if leased is not None:
            self._run(key_scripts.fill(self.KEY, token, keys.encode_id(version), LIFE_MS))

    def cached(self) -> int | None:
        """The version in the cache, which is no older than what has been acknowledged."""
        [raw] = self._run(key_scripts.get(self.KEY))
        payload = keys.payload(raw)
        if payload is None:
            return None
        version = keys.decode_id(payload)
        assert version >= self._acknowledged
        return version

    def evict(self) -> None:
        """The value, or the lease, vanishes."""
        self._run(key_scripts.forget(self.KEY))

    def check(self, seed: int) -> None:
        """What is cached is the truth."""
        assert self.cached() in (None, self._version), f"schedule {seed}"


@SCHEDULES
def test_nobody_reads_an_older_value_than_was_acknowledged_and_a_settled_one_is_the_truth(
    run: Run, schedules: range
) -> None:
    for seed in schedules:
        interleaving = Interleaving(seed)
        cached = Cached(run, interleaving)
        interleaving.play({cached.change: 1.0, cached.read: 2.0}, cached.evict)
        interleaving.settle()
        cached.check(seed)
