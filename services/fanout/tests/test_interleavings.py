"""Whatever comes in between, a home timeline ends up equal to the truth above its horizon.

Random programmes of writes, deletes, follows, unfollows, mutes, deleted accounts, reads, lost keys, repeated events,
authors who leave the index, and crashes; every step of every handler is interleaved with those of all others.
"""

import asyncio
from itertools import count
from random import Random
from typing import TypeAlias

from fanout_service.account_events import AccountEvents
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
from fanout_service.leaving import Leaving
from fanout_service.leaving import Sizes as LeavingSizes
from fanout_service.pace import Pace
from fanout_service.post_events import PostEvents
from fanout_service.rebuild import Rebuild
from fanout_service.reconcile import Reconcile
from fanout_service.repairs import Repairs
from feedkit.errors import Unavailable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .interleaving import Turns
from .model import FAR, ModelCaches, ModelEdgeRemains, ModelPostRemains, ModelTimelines, ModelTopics, ModelTruth

LENGTH = 3
VIEWERS, AUTHORS = (1, 2), (11, 12, 13)
Act: TypeAlias = tuple[str, int, int]
Event: TypeAlias = PostEvent | GraphEvent | AccountEvent
EDGE_CHANGES = {
    "follow": EdgeChange.FOLLOWED,
    "unfollow": EdgeChange.UNFOLLOWED,
    "mute": EdgeChange.MUTED,
    "unmute": EdgeChange.UNMUTED,
}

viewers, authors = st.sampled_from(VIEWERS), st.sampled_from(AUTHORS)
writes = st.tuples(st.just("write"), authors, st.just(0))
acts = st.one_of(
    writes,
    writes,
    writes,
    st.tuples(st.just("follow"), viewers, authors),
    st.tuples(st.just("unfollow"), viewers, authors),
    st.tuples(st.sampled_from(["mute", "unmute"]), viewers, authors),
    st.tuples(st.just("delete"), authors, st.integers(0, LENGTH)),
    st.tuples(st.just("close"), st.one_of(viewers, authors), st.just(0)),
    st.tuples(st.just("read"), viewers, st.just(0)),
    st.tuples(st.just("lose"), viewers, st.just(0)),
    st.tuples(st.sampled_from(["repeat", "leave", "crash"]), st.just(0), st.just(0)),
)
acts_at_the_line = st.one_of(
    st.tuples(st.sampled_from(["write", "write", "leave", "leave"]), st.just(AUTHORS[0]), st.just(0)),
    st.tuples(st.sampled_from(["follow", "unfollow"]), viewers, st.just(AUTHORS[0])),
    st.tuples(st.sampled_from(["read", "lose"]), viewers, st.just(0)),
    st.tuples(st.just("crash"), st.just(0), st.just(0)),
)
"""What lets an author enter and leave the index often."""
acts_of_viewers = st.one_of(
    writes,
    st.tuples(st.sampled_from(["follow", "unfollow"]), viewers, authors),
    st.tuples(st.sampled_from(["follow", "unfollow", "mute", "unmute"]), viewers, authors),
    st.tuples(st.sampled_from(["read", "read", "read", "lose"]), viewers, st.just(0)),
)
"""What lets rebuilds and reconciles of the same timeline meet."""


class Feed:
    """Fanout on models, and its neighbours as far as they make work for it."""

    def __init__(self, turns: Turns, threshold: int) -> None:
        turn = turns.turn
        self._turns = turns
        self._numbers = count(1)
        self._told: list[Event] = []
        self.truth = ModelTruth(turn, threshold=threshold)
        self.truth.follows = {viewer: set(AUTHORS[:viewer]) for viewer in VIEWERS}
        self.truth.mutes = {viewer: set() for viewer in VIEWERS}
        self.timelines = ModelTimelines(LENGTH, turn)
        caches, topics = ModelCaches(self.timelines, turn), ModelTopics(turn)
        topics.came = self._begin
        edges = ModelEdgeRemains(self.truth, turn)
        edges.ended = self._tell
        self.delivery = Delivery(self.truth, self.timelines, topics, Sizes(push_batch=1, chunk=1, authors_at_once=2))
        self.posts = PostEvents(caches, self.truth, caches, self.delivery, topics)
        self.graph = GraphEvents(caches, self.truth, topics)
        self.accounts = AccountEvents(caches, topics)
        self.repairs = Repairs(
            Rebuild(self.timelines, self.truth, self.truth, LENGTH, turn),
            Reconcile(self.timelines, self.truth, self.truth, LENGTH, turn),
            Erase(edges, ModelPostRemains(self.truth, turn), caches, topics),
            Pace(1e9, lambda: 0.0, turn),
            at_once=2,
        )

    def act(self, act: Act) -> None:
        """Do something; what follows from it happens some time."""
        kind, one, other = act
        match kind:
            case "write":
                # Also by somebody who is deleted, as a straggler that committed beside the deletion.
                post = next(self._numbers)
                self.truth.posts[post] = one
                self._tell(PostEvent(post, one, PostChange.WRITTEN))
            case "delete":
                if written := [post for post, author in self.truth.posts.items() if author == one][-1 - other :]:
                    del self.truth.posts[written[0]]
                    self._tell(PostEvent(written[0], one, PostChange.DELETED))
            case "follow" | "unfollow" | "mute" | "unmute":
                self._change_edge(kind, one, other)
            case "close":
                self.truth.deleted.add(one)
                self._tell(AccountEvent(one, AccountChange.DELETED))
            case "read":
                timeline = self.timelines.lists.get(one)
                if timeline is None or timeline.horizon > 0:
                    self._begin(Wish(one, 0))
            case "lose":
                self.timelines.lists.pop(one, None)
            case "leave":
                self.let_leave()
            case _:  # an event comes again
                if self._told:
                    self._begin(self._told[len(self._told) // 2])

    def let_leave(self) -> None:
        """Let authors leave the index who are below the threshold, as whoever leads does; there may be several who do."""
        self._turns.start(lambda: self._leaving().let_leave(self.truth.threshold))

    def _leaving(self) -> Leaving:
        truth, timelines, turn = self.truth, self.timelines, self._turns.turn
        sizes, pace = LeavingSizes(LENGTH, batch=1), Pace(1e9, lambda: 0.0, turn)
        return Leaving(truth, truth, truth, timelines, sizes=sizes, pace=pace, may_go_on=lambda: True)

    def _change_edge(self, kind: str, viewer: int, author: int) -> None:
        if viewer in self.truth.deleted:
            return
        edges = self.truth.follows if kind.endswith("follow") else self.truth.mutes
        (edges[viewer].discard if kind.startswith("un") else edges[viewer].add)(author)
        self._tell(GraphEvent(viewer, author, EDGE_CHANGES[kind]))

    def _tell(self, event: Event) -> None:
        self._told.append(event)
        self._begin(event)

    def _begin(self, work: Event | Chunk | AnyWish) -> None:
        """Begin to handle something, as whoever consumes its topic does."""
        match work:
            case PostEvent():
                self._turns.start(lambda: self.posts.handle([work]))
            case GraphEvent():
                self._turns.start(lambda: self.graph.handle([work]))
            case AccountEvent():
                self._turns.start(lambda: self.accounts.handle([work]))
            case Chunk():
                self._turns.start(lambda: self.delivery.deliver_chunk(work))
            case _:
                self._turns.start(lambda: self._fulfil(work))

    async def _fulfil(self, wish: AnyWish) -> None:
        """As the consumer does, until it has succeeded. Those of one viewer may meet, as they do after a rebalance."""
        while True:
            try:
                return await self.repairs.carry_out([wish])
            except Unavailable:
                await self._turns.turn()

    def check(self) -> None:
        """Hold every timeline against the truth. Pulled authors' posts reach readers in another way."""
        for viewer, timeline in self.timelines.lists.items():
            pushed = {post for post, author in self.truth.posts.items() if author not in self.truth.index}
            shown = {post for post in self.timelines.shown(viewer) if post in self.truth.home(viewer)} & pushed
            right = {post for post in self.truth.home(viewer) & pushed if post > timeline.horizon}
            assert shown == right, (viewer, timeline)
            assert len(timeline.entries) <= LENGTH
            assert timeline.horizon < FAR, "a rebuild that never ended"
        for user in self.truth.deleted:
            assert user not in self.timelines.lists
            assert user not in self.truth.posts.values()
            assert user not in self.truth.index
            for edges in (self.truth.follows, self.truth.mutes):
                assert not edges.get(user)
                assert not any(user in authors for authors in edges.values())


def play(programme: list[Act], threshold: int, persistence: float, random: Random) -> None:
    """Play a programme, let whatever follows from it happen, and hold the timelines against the truth."""

    def choose(waiting: int) -> int:
        # Who came last goes on, for long stretches, because a race is often lost by one who sleeps through all of another.
        return waiting - 1 if random.random() < persistence else random.randrange(waiting)

    async def run() -> None:
        turns = Turns()
        feed = Feed(turns, threshold)
        for act in programme:
            if act[0] == "crash":
                await turns.crash(random.randrange)
            else:
                feed.act(act)
            for _ in range(random.randrange(10)):
                await turns.step(choose)
        await turns.finish(choose)
        feed.check()
        feed.let_leave()
        await turns.finish(choose)
        assert all(feed.truth.follower_count(author) >= threshold for author in feed.truth.index)
        feed.check()

    asyncio.run(run())


persistences, randoms = st.sampled_from([0.0, 0.5, 0.8, 0.95]), st.randoms(use_true_random=True)
interleaved = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@settings(interleaved, max_examples=100)
@given(st.lists(acts, min_size=15, max_size=40), st.sampled_from([2, FAR]), persistences, randoms)
def test_a_settled_timeline_equals_the_truth_above_its_horizon(
    programme: list[Act], threshold: int, persistence: float, random: Random
) -> None:
    play(programme, threshold, persistence, random)


@settings(interleaved, max_examples=200)
@given(st.lists(acts_at_the_line, min_size=5, max_size=40), persistences, randoms)
def test_so_it_does_where_authors_enter_and_leave_the_index_all_the_time(
    programme: list[Act], persistence: float, random: Random
) -> None:
    # A celebrity who wrote more than a timeline holds, and is none any more.
    celebrity = AUTHORS[0]
    beginning = [("read", viewer, 0) for viewer in VIEWERS] + [("write", celebrity, 0)] * (LENGTH + 2)
    play([*beginning, ("unfollow", VIEWERS[1], celebrity), *programme], 2, persistence, random)


@interleaved
@given(st.lists(acts_of_viewers, min_size=15, max_size=40), persistences, randoms)
def test_so_it_does_where_viewers_change_their_minds_while_their_timelines_are_made(
    programme: list[Act], persistence: float, random: Random
) -> None:
    play(programme, FAR, persistence, random)
