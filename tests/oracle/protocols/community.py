"""People on the real domain code of all services, whose every step is chosen by a test; and what they have to see."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count, pairwise
from typing import Any, NamedTuple, TypeAlias

from fanout_service.account_events import AccountEvents
from fanout_service.cache_store import CacheStore as FanoutsCaches
from fanout_service.cache_store import Lengths
from fanout_service.delivery import Delivery, Sizes
from fanout_service.erase import Erase
from fanout_service.events import (
    AccountChange,
    AccountEvent,
    AnyWish,
    Chunk,
    EdgeChange,
    GraphEvent,
    PostChange,
    PostEvent,
    Wish,
)
from fanout_service.graph_events import GraphEvents
from fanout_service.history_store import HistoryStore
from fanout_service.leaving import Leaving
from fanout_service.leaving import Sizes as LeavingSizes
from fanout_service.pace import Pace
from fanout_service.post_events import PostEvents
from fanout_service.rebuild import Rebuild
from fanout_service.recents_store import RecentsStore
from fanout_service.reconcile import Reconcile
from fanout_service.repairs import Repairs
from fanout_service.timeline_store import TimelineStore
from feed.post.v1 import post_pb2
from feedkit import key_scripts, keys
from feedkit.errors import NotFound, Unavailable
from hydrate_service.cache_store import AuthorLeases, HidesLeases, PostLeases
from hydrate_service.cache_store import CacheStore as HydratesCache
from hydrate_service.hydration import Hydrator
from hydrate_service.hydration import Outcome as HydratesOutcome
from hydrate_service.hydration import Shown as HydratesShown
from hydrate_service.truth import SharedReads
from hydrate_service.visibility import Surface
from hydrate_service.visibility import Withheld as HydratesWithheld
from timeline_service.author_posts import CachedLists
from timeline_service.contexts import Contexts
from timeline_service.entries import Entry
from timeline_service.home_store import HomeStore, ListStore
from timeline_service.homes import Homes
from timeline_service.hydration import Outcome, Shown, Withheld
from timeline_service.hydration import Unavailable as NotKnown
from timeline_service.mix import Mix
from timeline_service.pulled_index import PulledIndex
from timeline_service.recents import Recents
from timeline_service.source import TOP

from tests.oracle.difference import Difference
from tests.oracle.ledger import Fact, Ledger, Text, standing, text
from tests.oracle.protocols.stepped_redis import SteppedRedis
from tests.oracle.protocols.truth import FanoutsTruth, HydratesTruth, Post, Remains, TimelinesTruth, Truth
from tests.oracle.protocols.turns import Choose, Turns
from tests.oracle.steps import Standing, Tie

OWN, RECENTS = 2, 2
"""How many posts are kept of one author."""
LIFE_MS = 600_000
LONG = 1000.0
"""Longer than a test takes, in seconds: what lasts so long ends when the test's own clock is moved."""
PEOPLE = (1, 2, 3, 4, 5)

Event: TypeAlias = PostEvent | GraphEvent | AccountEvent
Task: TypeAlias = Event | Chunk | AnyWish

_CHANGES = {
    (Tie.FOLLOW, True): EdgeChange.FOLLOWED,
    (Tie.FOLLOW, False): EdgeChange.UNFOLLOWED,
    (Tie.MUTE, True): EdgeChange.MUTED,
    (Tie.MUTE, False): EdgeChange.UNMUTED,
    (Tie.BLOCK, True): EdgeChange.BLOCKED,
    (Tie.BLOCK, False): EdgeChange.UNBLOCKED,
}
_ACCOUNT_CHANGES = {
    Standing.ACTIVE: AccountChange.RESTORED,
    Standing.SUSPENDED: AccountChange.SUSPENDED,
    Standing.DELETED: AccountChange.DELETED,
}


class Limits(NamedTuple):
    """What is to be small."""

    threshold: int
    """From how many followers an author is pulled."""
    length: int
    """How many posts a home timeline holds."""


class Community:
    """Some people, and everything that works for them."""

    def __init__(self, redis_port: int, turns: Turns, dice: random.Random, limits: Limits) -> None:
        self._turns = turns
        self.ledger = Ledger(people=list(PEOPLE))
        self.truth = Truth(PEOPLE, limits.threshold)
        self._length = limits.length
        self.redis = SteppedRedis(redis_port, turns, dice, self._announced)
        self._now = 0.0
        self._numbers = count(1)
        self._told: list[Event] = []
        self._wished: set[int] = set()
        self.is_deaf = False
        self._build_fanout()
        self._build_timeline(self._build_hydrate())

    # --- how everything is built -----------------------------------------------------------------------------------------

    def _build_fanout(self) -> None:
        truth, redis, turn = FanoutsTruth(self.truth, self._turns), self.redis, self._turns.turn
        self._fanouts_truth = truth
        truth.ended = self.tell
        timelines = TimelineStore(redis, length=self._length, life_days=28)
        cached = FanoutsCaches(redis, Lengths(own=OWN, recents=RECENTS), feature_days=1)
        self._delivery = Delivery(truth, timelines, self, Sizes(push_batch=1, chunk=1, authors_at_once=2))
        self._posts = PostEvents(cached, truth, RecentsStore(redis, LONG), self._delivery, self)
        self._edges = GraphEvents(cached, truth, self)
        self._accounts = AccountEvents(cached, self)
        self._repairs = Repairs(
            Rebuild(timelines, truth, truth, self._length, turn),
            Reconcile(timelines, truth, truth, self._length, turn),
            Erase(Remains(truth.erase_edges), Remains(truth.erase_posts), cached, self),
            Pace(1e9, lambda: 0.0, turn),
            at_once=2,
        )

    def _build_hydrate(self) -> "_Hydration":
        truth, redis = HydratesTruth(self.truth, self._turns), self.redis
        posts = SharedReads(truth.posts, PostLeases(redis, LONG), lambda: LONG)
        authors = SharedReads(truth.authors, AuthorLeases(redis, LONG), lambda: LONG)
        hides = SharedReads(truth.hides, HidesLeases(redis, LONG), lambda: LONG)
        cache = HydratesCache(redis)
        return _Hydration(Hydrator(cache, posts, authors, hides, truth, counts=truth, note_withheld=_unnoted))

    def _build_timeline(self, hydration: "_Hydration") -> None:
        truth, redis = TimelinesTruth(self.truth, self._turns), self.redis
        store = HomeStore(redis, cache_ms=LIFE_MS, timeline_ms=LIFE_MS)
        own = CachedLists(ListStore(redis, keys.own, cache_ms=LIFE_MS), truth, OWN)
        recents = CachedLists(ListStore(redis, keys.recents, cache_ms=LIFE_MS), truth, RECENTS)
        self._recents = Recents(recents.get, lambda: self._now, staleness=LONG, remembered=10)
        self._index = PulledIndex(truth.changes, lambda: self._now, staleness=LONG)
        self._homes = Homes(
            store,
            Contexts(truth, store),
            truth,
            own,
            self._recents,
            pulled=lambda: self._index.authors,
            wish_rebuild=self._wish_rebuild,
        )
        self._mix = Mix(hydration, hydration_rounds=8)

    # --- what works behind ---------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Something was committed with its event, which is handled some time."""
        self._told.append(event)
        self._begin(event)

    async def leave(self, work: Sequence[Task]) -> None:
        """Work is left for all workers: see `delivery.Chunks` and `wishes.Wishes`."""
        await self._turns.turn()
        for piece in work:
            self._begin(piece)

    def _begin(self, work: Task) -> None:
        match work:
            case PostEvent():
                self._turns.start(lambda: self._posts.handle([work]), mortal=True)
            case GraphEvent():
                self._turns.start(lambda: self._edges.handle([work]), mortal=True)
            case AccountEvent():
                self._turns.start(lambda: self._accounts.handle([work]), mortal=True)
            case Chunk():
                self._turns.start(lambda: self._delivery.deliver_chunk(work), mortal=True)
            case _:
                self._turns.start(lambda: self._fulfil(work), mortal=True)

    async def _fulfil(self, wish: AnyWish) -> None:
        """As the consumer does, until it has succeeded. Those of one viewer may meet, as they do after a rebalance."""
        while True:
            try:
                await self._repairs.carry_out([wish])
            except Unavailable:
                await self._turns.turn()
            else:
                if isinstance(wish, Wish) and wish.is_rebuild:
                    self._wished.discard(wish.viewer_id)
                return

    def _wish_rebuild(self, viewer: int) -> None:
        # Not again and again, or the last one would make up for whatever another one did wrong.
        if viewer not in self._wished:
            self._wished.add(viewer)
            self._begin(Wish(viewer, 0))

    def _announced(self, message: bytes) -> None:
        if not self.is_deaf:
            author = keys.decode_id(message)
            self._index.entered(author)
            self._recents.changed(author)

    # --- what happens to them --------------------------------------------------------------------------------------------

    def repeat(self, which: int) -> None:
        """An event comes again."""
        if self._told:
            self._begin(self._told[which % len(self._told)])

    def let_leave(self) -> None:
        """Authors leave the index who are below the threshold, as whoever leads sees to it; there may be several who do."""
        truth = self._fanouts_truth
        histories = HistoryStore(self.redis, length=self._length)
        leaving = Leaving(
            truth,
            truth,
            truth,
            histories,
            sizes=LeavingSizes(self._length, batch=1),
            pace=Pace(1e9, lambda: 0.0, self._turns.turn),
            may_go_on=lambda: True,
        )
        self._turns.start(lambda: leaving.let_leave(self.truth.threshold), mortal=True)

    async def shrink(self, author: int, choose: Choose) -> None:
        """Somebody is pulled, has a post that nobody was pushed, and then loses too many followers to stay pulled."""
        for follower in PEOPLE:
            self.tie(Tie.FOLLOW, follower, author, bound=True, looks=False)
            self.look(follower, 2)
        await self._turns.finish(choose)
        self.write(author, "Pulled")
        await self._turns.finish(choose)
        for follower in self.truth.followers(author)[self.truth.threshold - 1 :]:
            self.tie(Tie.FOLLOW, follower, author, bound=False, looks=False)
        await self._turns.finish(choose)

    def refresh(self) -> None:
        """`timeline` asks which authors are pulled."""
        self._turns.start(self._index.refresh)

    def let_time_pass(self, part: float) -> None:
        """So large a part of the time passes that `timeline` may remember what is pulled."""
        self._now += part * LONG

    def hear_again(self) -> None:
        """`timeline` hears announcements again, and may have missed some."""
        self.is_deaf = False
        self._recents.forget_all()

    def lose(self, *names: str) -> None:
        """Keys vanish."""
        for name in names:
            self.redis.now(("DEL", name))

    # --- what people do --------------------------------------------------------------------------------------------------

    def write(self, author: int, content: str) -> None:
        """Somebody posts, and looks."""

        async def work() -> None:
            post = next(self._numbers)
            # Ids are made before the commit, so a smaller one may be committed later.
            await self._turns.turn()
            if self.truth.standing[author] is not Standing.ACTIVE:
                return
            self.truth.posts[post] = Post(post, author, content)
            self.tell(PostEvent(post, author, PostChange.WRITTEN))
            await self.redis.run(
                key_scripts.add_to_list(keys.own(author), post, OWN), key_scripts.forget(keys.post(post))
            )
            self.ledger.write(post, author, content)
            await self.read(author, 3)

        self._turns.start(work)

    def rewrite(self, which: int, content: str | None, reader: int) -> None:
        """Somebody edits a post of theirs, or, by None, deletes it; then somebody looks."""
        alive = [post for post in self.truth.posts.values() if not post.deleted and post.id in self.ledger.posts]
        if not alive:
            return
        post = alive[-1 - which % len(alive)]
        said = None if content is None else Text(content, edited=True)

        async def commit() -> None:
            post.deleted = post.deleted or content is None
            post.content, post.edited = content or "", True
            change = PostChange.DELETED if content is None else PostChange.EDITED
            self.tell(PostEvent(post.id, post.author, change))
            lists = [keys.own(post.author), keys.recents(post.author)] if content is None else []
            await self.redis.run(*map(key_scripts.forget, [keys.post(post.id), *lists]))

        self._change({text(post.id): said}, commit, reader)

    def tie(self, tie: Tie, one: int, other: int, *, bound: bool, looks: bool = True) -> None:
        """Somebody follows, mutes or blocks somebody else, or no longer; then they look, if they do."""
        deleted = {user for user in (one, other) if self.truth.standing[user] is Standing.DELETED}
        blocked = {(one, other), (other, one)} & self.truth.ties[Tie.BLOCK]
        if one == other or deleted or (tie is Tie.FOLLOW and bound and blocked):
            return
        facts: dict[Fact, Any] = {(tie, one, other): bound}
        if tie is Tie.BLOCK and bound:
            facts |= {(Tie.FOLLOW, one, other): False, (Tie.FOLLOW, other, one): False}

        async def commit() -> None:
            for ended, viewer, author in facts:
                pairs = self.truth.ties[ended]
                if bound and ended is tie:
                    pairs.add((viewer, author))
                elif (viewer, author) in pairs:
                    pairs.discard((viewer, author))
                else:
                    continue
                self.tell(GraphEvent(viewer, author, _CHANGES[ended, bound and ended is tie]))
            both = {one, other} if tie is Tie.BLOCK else {one}
            stale = [key(user) for user in both for key in (keys.context, keys.hidden)]
            await self.redis.run(*map(key_scripts.forget, stale))

        self._change(facts, commit, one if looks else None)

    def judge(self, user: int, verdict: Standing, reader: int) -> None:
        """An operator suspends, restores or deletes an account; then somebody looks."""
        if self.truth.standing[user] is Standing.DELETED:
            return

        async def commit() -> None:
            self.truth.standing[user] = verdict
            self.tell(AccountEvent(user, _ACCOUNT_CHANGES[verdict]))
            stale = [keys.user(user)]
            if verdict is Standing.DELETED:
                stale += [keys.context(user), keys.hidden(user)]
            await self.redis.run(*map(key_scripts.forget, stale))

        self._change({standing(user): verdict}, commit, reader)

    def _change(self, facts: Mapping[Fact, Any], commit: Callable[[], Awaitable[None]], reader: int | None) -> None:
        """A change is committed, told to the caches, acknowledged, and looked at. Of one fact there is one at a time."""
        if any(self.ledger.is_changing(fact) for fact in facts):
            return
        changing = self.ledger.changing(facts)
        changing.__enter__()

        async def work() -> None:
            await self._turns.turn()
            await commit()
            changing.__exit__(None, None, None)
            if reader is not None:
                await self.read(reader, 3)

        self._turns.start(work)

    # --- what they see -------------------------------------------------------------------------------------------------

    def look(self, viewer: int, size: int) -> None:
        """Somebody reads their feed to its end."""

        async def work() -> None:
            await self.read(viewer, size)

        self._turns.start(work)

    async def read(self, viewer: int, size: int) -> list[int] | None:
        """What a feed shows, which has to be what it may and must show. None where the viewer is gone."""
        before = self.ledger.moment()
        posts: list[HydratedPost] = []
        position: int | None = TOP
        while position is not None:
            try:
                home = await self._homes.open(viewer, position, size)
            except NotFound:
                break
            page = await self._mix.page(home.viewer, home.sources, position, size)
            posts += page.posts
            position = page.next_position
        possible = self.ledger.since(before)
        shown = [post.post.id for post in posts]
        where = f"feed of {viewer}, {size} a page: {shown}"
        if position is not None:
            if Standing.DELETED not in possible.of(standing(viewer)):
                raise Difference(f"{where}: refused")
            return None
        if any(newer <= older for newer, older in pairwise(shown)):
            raise Difference(f"{where}: not newest first, or twice")
        for post, _ in posts:
            if post.id not in self.ledger.posts:
                # Committed, and not acknowledged yet.
                if not possible.show_author(viewer, post.author_id, in_feed=True):
                    raise Difference(f"{where}: shows {post.id}, of {post.author_id}")
                continue
            if not possible.show(viewer, post.id, in_feed=True):
                raise Difference(f"{where}: shows {post.id}: {possible.why(viewer, post.id)}")
            said = Text(post.content, edited=post.edited_at_ms > 0)
            if said not in possible.texts(post.id):
                raise Difference(f"{where}: post {post.id} says {said}, not {possible.texts(post.id)}")
        if lost := possible.feed_has_to_show(viewer) - set(shown):
            raise Difference(f"{where}: lost {sorted(lost)}")
        return shown

    async def rest(self, choose: Choose) -> None:
        """Let everything end, and hold every home timeline against what it promises, without a read that would mend it."""
        await self._turns.finish(choose)
        for viewer in PEOPLE:
            tail = self._held(viewer)
            if tail is None:
                continue
            if viewer not in self.ledger.living():
                raise Difference(f"at rest, and {viewer}, who was deleted, has a timeline")
            post_ids, _ = tail.columns(0, tail.length)
            right = self.truth.pushed_to(viewer)
            shown = {post for post in post_ids if post > tail.trailer.horizon} & right
            if lost := {post for post in right if post > tail.trailer.horizon} - shown:
                raise Difference(
                    f"at rest, and the timeline of {viewer}, {self._told_of(viewer)}, lacks {sorted(lost)}"
                )

    def _held(self, viewer: int) -> keys.Tail | None:
        return keys.decode_timeline(self.redis.now(key_scripts.read_whole_timeline(viewer)))

    def _told_of(self, viewer: int) -> str:
        tail = self._held(viewer)
        held = "none" if tail is None else f"{tail.columns(0, tail.length)}, {tail.trailer}"
        return f"{held} (pulled: {sorted(self.truth.index)})"

    async def settle(self, choose: Choose) -> None:
        """Let everything end, and hold every feed against the ledger."""
        await self.rest(choose)
        self.hear_again()
        self.let_time_pass(1.0)
        self.refresh()
        await self._turns.finish(choose)
        for size in (2, 7):
            self._turns.start(lambda size=size: self._compare(size))
            await self._turns.finish(choose)
        for viewer in self.ledger.living():
            self.ledger.certain[viewer] = set(self.ledger.feed(viewer))

    async def _compare(self, size: int) -> None:
        for viewer in self.ledger.living():
            right = self.ledger.feed(viewer)
            held = self._told_of(viewer)
            shown = await self.read(viewer, size)
            if shown != right:
                raise Difference(
                    f"settled, and the feed of {viewer}, {size} a page, is {shown} instead of {right}; held: {held}"
                )


class HydratedPost(NamedTuple):
    """A post as it is shown."""

    post: post_pb2.Post
    author_name: str


class _Hydration:
    """Implements `timeline_service.hydration.Hydrator` by the real thing, with nothing between the two services."""

    def __init__(self, hydrator: Hydrator[post_pb2.Post]) -> None:
        self._hydrator = hydrator

    async def hydrate(self, viewer_id: int, entries: Sequence[Entry]) -> Sequence[Outcome[HydratedPost]]:
        """See there."""
        outcomes = await self._hydrator.hydrate(
            [entry.post_id for entry in entries],
            [entry.author_id for entry in entries],
            viewer_id=viewer_id,
            surface=Surface.FEED,
        )
        return [_outcome(outcome) for outcome in outcomes.values()]


def _unnoted(_reason: HydratesWithheld, _surface: Surface) -> None:
    """What is withheld is nothing to be told of here."""


def _outcome(outcome: HydratesOutcome[post_pb2.Post]) -> Outcome[HydratedPost]:
    match outcome:
        case HydratesShown(post, author_name, _):
            return Shown(HydratedPost(post, author_name))
        case HydratesWithheld.NOT_FOUND:
            return Withheld()
        case HydratesWithheld():
            return Withheld(with_its_author=True)
        case _:
            return NotKnown("somebody")
