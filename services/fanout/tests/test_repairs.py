"""Wishes are fulfilled once, one after another for a viewer, at a bounded pace; rebuild and reconcile do what they say."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from fanout_service.events import AnyWish, EraseWish, Wish
from fanout_service.pace import Pace
from fanout_service.rebuild import Rebuild
from fanout_service.reconcile import Reconcile
from fanout_service.repairs import Repairs, without_repetition
from fanout_service.timelines import Entry, Recent, share_of
from feedkit.errors import FailedPrecondition, NotFound, Unavailable
from hypothesis import given
from hypothesis import strategies as st

from .model import ModelTimeline, ModelTimelines, ModelTruth, at_once

VIC, WIM = 1, 2
ANN, BOB = 11, 12
LENGTH = 3


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


async def nothing(_user_id: int) -> None:
    """An erasure with nothing to erase."""


def pace() -> Pace:
    return Pace(1e9, lambda: 0.0, no_sleep)


class Feed:
    """Rebuild and reconcile on models; Vic follows Ann."""

    def __init__(self, turn: Callable[[], Awaitable[None]] = at_once) -> None:
        self.truth = ModelTruth(turn)
        self.truth.follows = {VIC: {ANN}}
        self.timelines = ModelTimelines(LENGTH)
        self.rebuild = Rebuild(self.timelines, self.truth, self.truth, LENGTH, no_sleep)
        self.reconcile = Reconcile(self.timelines, self.truth, self.truth, LENGTH, no_sleep)

    def write(self, author: int, *posts: int) -> None:
        self.truth.posts.update(dict.fromkeys(posts, author))

    def timeline(self, *posts: int, horizon: int = 0) -> ModelTimeline:
        """Give Vic a timeline."""
        entries = {Entry(post, self.truth.posts[post]) for post in posts}
        self.timelines.lists[VIC] = ModelTimeline(horizon, b"first", entries=entries)
        return self.timelines.lists[VIC]


# --- wishes ----------------------------------------------------------------------------------------------------------


def test_the_same_wish_counts_once() -> None:
    assert without_repetition([Wish(VIC, ANN), Wish(VIC, BOB), Wish(WIM, ANN), Wish(VIC, ANN)]) == [
        [Wish(VIC, ANN), Wish(VIC, BOB)],
        [Wish(WIM, ANN)],
    ]


def test_a_rebuild_fulfils_every_other_wish_of_its_viewer() -> None:
    wishes = [Wish(VIC, ANN), Wish(VIC, 0), Wish(VIC, BOB), Wish(VIC, 0), Wish(WIM, ANN)]
    assert without_repetition(wishes) == [[Wish(VIC, 0)], [Wish(WIM, ANN)]]


def test_an_erasure_is_one_of_its_users_wishes_and_counts_once() -> None:
    wishes = [Wish(VIC, ANN), EraseWish(VIC), EraseWish(WIM), EraseWish(VIC), Wish(VIC, 0)]
    assert without_repetition(wishes) == [[EraseWish(VIC), Wish(VIC, 0)], [EraseWish(WIM)]]


@given(
    st.lists(st.one_of(st.builds(Wish, st.integers(1, 3), st.integers(0, 3)), st.builds(EraseWish, st.integers(1, 3))))
)
def test_no_wish_is_left_unfulfilled(wishes: list[AnyWish]) -> None:
    fulfilled = [wish for mine in without_repetition(wishes) for wish in mine]
    assert len(fulfilled) == len(set(fulfilled))
    assert set(fulfilled) <= set(wishes)
    unfulfilled = set(wishes) - set(fulfilled)
    assert all(isinstance(wish, Wish) and Wish(wish.viewer_id, 0) in fulfilled for wish in unfulfilled)


async def test_a_viewers_wishes_follow_one_another_while_others_are_worked_on() -> None:
    running: list[int] = []
    most_at_once = 0

    async def reconcile(viewer: int, _author: int) -> None:
        nonlocal most_at_once
        assert viewer not in running
        running.append(viewer)
        most_at_once = max(most_at_once, len(running))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running.remove(viewer)

    async def rebuild(viewer: int) -> None:
        await reconcile(viewer, 0)

    repairs = Repairs(rebuild, reconcile, nothing, pace(), at_once=2)
    await repairs.carry_out([Wish(viewer, author) for author in (ANN, BOB) for viewer in (1, 2, 3, 4)])
    assert most_at_once == 2


async def test_a_wish_for_nobody_is_void_and_holds_up_nobody() -> None:
    mended: list[int] = []

    async def rebuild(viewer: int) -> None:
        if viewer == VIC:
            raise NotFound("USER_NOT_FOUND", "nobody")
        mended.append(viewer)

    async def reconcile(viewer: int, author: int) -> None:
        raise AssertionError

    async def erase(user: int) -> None:
        raise FailedPrecondition("USER_NOT_DELETED", "somebody")

    wishes = [EraseWish(WIM), Wish(VIC, 0), Wish(WIM, 0)]
    await Repairs(rebuild, reconcile, erase, pace(), at_once=1).carry_out(wishes)
    assert mended == [WIM]


async def test_each_wish_is_fulfilled_by_what_it_asks_for() -> None:
    done: list[tuple[str, *tuple[int, ...]]] = []

    async def rebuild(viewer: int) -> None:
        done.append(("rebuild", viewer))

    async def reconcile(viewer: int, author: int) -> None:
        done.append(("reconcile", viewer, author))

    async def erase(user: int) -> None:
        done.append(("erase", user))

    await Repairs(rebuild, reconcile, erase, pace(), at_once=1).carry_out(
        [Wish(VIC, ANN), EraseWish(WIM), Wish(BOB, 0)]
    )
    assert done == [("reconcile", VIC, ANN), ("erase", WIM), ("rebuild", BOB)]


async def test_beginnings_are_spread_evenly_and_rest_does_not_add_up() -> None:
    now, waits = 100.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        waits.append(round(seconds, 6))
        now += seconds

    paced = Pace(10, lambda: now, sleep)
    for _ in range(3):
        await paced.turn()
    now += 60
    for _ in range(3):
        await paced.turn()
    assert waits == [0.1] * 4


# --- rebuild ---------------------------------------------------------------------------------------------------------


async def test_a_rebuild_makes_a_timeline_of_the_newest_posts_and_says_how_far_it_reaches() -> None:
    feed = Feed()
    feed.write(ANN, 1, 2, 4, 5)
    feed.write(BOB, 3)
    await feed.rebuild(VIC)
    assert feed.timelines.shown(VIC) == {2, 4, 5}
    assert feed.timelines.lists[VIC].horizon == 1
    assert feed.truth.active == {VIC}, "or nobody would push to it"


async def test_a_rebuild_that_finds_everything_reaches_down_to_the_beginning() -> None:
    feed = Feed()
    feed.write(ANN, 1, 2, 3)
    await feed.rebuild(VIC)
    assert feed.timelines.lists[VIC].horizon == 0


async def test_who_follows_nobody_gets_an_empty_timeline_without_asking_for_posts() -> None:
    feed = Feed()
    feed.truth.follows = {VIC: set()}
    feed.write(ANN, 1)
    await feed.rebuild(VIC)
    assert feed.timelines.shown(VIC) == set()
    assert feed.timelines.lists[VIC].horizon == 0


async def test_a_rebuild_for_nobody_makes_nothing() -> None:
    feed = Feed()
    with pytest.raises(NotFound):
        await feed.rebuild(WIM)
    assert feed.timelines.lists == {}


async def test_a_rebuild_for_somebody_who_is_deleted_meanwhile_leaves_no_timeline() -> None:
    feed = Feed()

    async def deleted(viewer_id: int) -> Sequence[int]:
        raise NotFound("USER_NOT_FOUND", f"{viewer_id} was deleted")

    feed.truth.followees = deleted  # type: ignore[method-assign]
    with pytest.raises(NotFound):
        await feed.rebuild(VIC)
    assert feed.timelines.lists == {}


async def test_a_rebuild_that_is_disturbed_every_time_is_left_for_later() -> None:
    feed = Feed()

    async def lost() -> None:
        feed.timelines.lists.clear()

    feed = Feed(turn=lost)
    with pytest.raises(Unavailable):
        await feed.rebuild(VIC)


# --- reconcile -------------------------------------------------------------------------------------------------------


async def test_a_followed_authors_posts_above_the_horizon_are_added() -> None:
    feed = Feed()
    feed.write(ANN, 1, 5, 7)
    feed.write(BOB, 6)
    timeline = feed.timeline(6, horizon=3)
    await feed.reconcile(VIC, ANN)
    assert feed.timelines.shown(VIC) == {5, 6, 7}
    assert timeline.horizon == 3
    assert timeline.epoch != b"first"


async def test_more_posts_than_there_is_room_for_raise_the_horizon() -> None:
    feed = Feed()
    feed.write(ANN, 1, 2, 3, 4, 5)
    timeline = feed.timeline()
    await feed.reconcile(VIC, ANN)
    assert feed.timelines.shown(VIC) == {3, 4, 5}
    assert timeline.horizon == 2


async def test_an_unfollowed_authors_entries_are_removed_and_no_others() -> None:
    feed = Feed()
    feed.write(ANN, 1, 3)
    feed.write(BOB, 2)
    feed.timeline(1, 2, 3)
    await feed.reconcile(VIC, BOB)
    assert feed.timelines.shown(VIC) == {1, 3}


async def test_a_muted_authors_entries_are_removed_and_come_back_when_the_mute_ends() -> None:
    feed = Feed()
    feed.write(ANN, 1, 3)
    feed.timeline(1, 3)
    feed.truth.mutes = {VIC: {ANN}}
    await feed.reconcile(VIC, ANN)
    assert feed.timelines.shown(VIC) == set()
    feed.truth.mutes = {}
    await feed.reconcile(VIC, ANN)
    assert feed.timelines.shown(VIC) == {1, 3}


async def test_a_timeline_that_does_not_exist_is_not_made_by_a_reconcile() -> None:
    feed = Feed()
    feed.write(ANN, 1)
    await feed.reconcile(VIC, ANN)
    assert feed.timelines.lists == {}


async def test_a_rewrite_in_between_makes_a_reconcile_read_everything_anew() -> None:
    feed = Feed()
    feed.write(ANN, 1)
    feed.timeline()
    disturbances = 1

    async def rewritten_after_the_edge_was_read() -> None:
        nonlocal disturbances
        if disturbances:
            disturbances -= 1
            feed.truth.follows[VIC].discard(ANN)
            feed.timelines.lists[VIC].epoch = b"another"

    reads = feed.truth.recent

    async def disturbed(author_ids: list[int], limit: int) -> Recent:
        recent = await reads(author_ids, limit)
        await rewritten_after_the_edge_was_read()
        return recent

    feed.truth.recent = disturbed  # type: ignore[method-assign]
    await feed.reconcile(VIC, ANN)
    assert feed.timelines.shown(VIC) == set(), "the edge that stood first is no longer true"


# --- the share of a timeline -----------------------------------------------------------------------------------------


@given(st.sets(st.integers(1, 99), max_size=12), st.integers(1, 8))
def test_a_timeline_takes_the_newest_and_knows_the_first_that_it_left_out(ids: set[int], length: int) -> None:
    newest = sorted(ids, reverse=True)
    shown = newest[: length + 1]
    recent = Recent([Entry(post, ANN) for post in shown], shown[-1] if len(newest) > len(shown) else 0)
    entries, left_out = share_of(recent, length)
    assert [entry.post_id for entry in entries] == newest[:length][::-1]
    assert left_out == (newest[length] if len(newest) > length else 0)


def test_an_answer_that_was_cut_short_promises_no_more_than_it_says() -> None:
    assert share_of(Recent([Entry(9, ANN), Entry(7, ANN)], 5), 10).left_out == 4
