"""Who has become too small leaves the index of pulled authors, with all they wrote in every timeline that stands."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence

import pytest
from fanout_service.leaving import Leaving, ShrunkAuthor, Sizes
from fanout_service.pace import Pace
from fanout_service.rebuild import Rebuild
from fanout_service.reconcile import Reconcile
from fanout_service.timelines import Recent, Share
from feedkit.errors import FeedError, Internal, Unavailable

from .model import ModelTimeline, ModelTimelines, ModelTruth

LENGTH = 3
AUTHOR, OTHER = 11, 12
BELOW = 5


class World:
    """Authors in the index, and viewers with timelines."""

    def __init__(self, viewers: Sequence[int] = (1, 2)) -> None:
        self.truth = ModelTruth()
        self.timelines = ModelTimelines(LENGTH)
        self.truth.index = {AUTHOR: 1}
        self.truth.follows = {viewer: {AUTHOR} for viewer in viewers}
        self.truth.active = set(viewers)
        self.timelines.lists = {viewer: ModelTimeline(0, b"first") for viewer in viewers}
        self.goes_on = True
        self.waited: list[float] = []
        self.leaving = self.leader()

    def leader(self, *, batch: int = 1, per_second: float = 1e9) -> Leaving:
        """Somebody who lets authors leave."""

        async def wait(seconds: float) -> None:
            self.waited.append(seconds)

        return Leaving(
            self.truth,
            self.truth,
            self.truth,
            self.timelines,
            sizes=Sizes(LENGTH, batch),
            pace=Pace(per_second, lambda: 0.0, wait),
            may_go_on=lambda: self.goes_on,
        )

    def write(self, *posts: int, author: int = AUTHOR) -> None:
        """Posts that nobody was told of."""
        self.truth.posts |= dict.fromkeys(posts, author)

    def shown(self) -> list[set[int]]:
        """What every viewer's timeline shows."""
        return [self.timelines.shown(viewer) for viewer in self.timelines.lists]

    def before(self, method: str, happens: Callable[[], None]) -> None:
        """Let something happen once, just before a method of the truth is called."""
        original: Callable[..., Awaitable[object]] = getattr(self.truth, method)

        async def disturbed(*arguments: object) -> object:
            setattr(self.truth, method, original)
            happens()
            return await original(*arguments)

        setattr(self.truth, method, disturbed)

    def after(self, method: str, happens: Callable[[], None]) -> None:
        """Likewise, just after it has answered."""
        original: Callable[..., Awaitable[object]] = getattr(self.truth, method)

        async def disturbed(*arguments: object) -> object:
            setattr(self.truth, method, original)
            answer = await original(*arguments)
            happens()
            return answer

        setattr(self.truth, method, disturbed)


async def test_all_that_a_timeline_has_room_for_is_pushed_before_the_author_leaves() -> None:
    world = World()
    world.write(1, 2)
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [{1, 2}, {1, 2}]
    assert world.truth.index == {}


async def test_a_timeline_promises_no_more_than_it_was_given() -> None:
    world = World()
    world.write(1, 2, 3, 4, 5)
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [{3, 4, 5}, {3, 4, 5}]
    assert [timeline.horizon for timeline in world.timelines.lists.values()] == [2, 2]


async def test_only_those_who_are_too_small_leave() -> None:
    world = World()
    await world.leaving.let_leave(2)
    assert world.truth.index.keys() == {AUTHOR}
    await world.leaving.let_leave(3)
    assert world.truth.index == {}


async def test_nobody_leaves_where_all_are_pulled() -> None:
    world = World()
    await world.leaving.let_leave(0)
    assert world.truth.index.keys() == {AUTHOR}


async def test_a_push_of_what_was_never_shown_makes_no_timeline() -> None:
    world = World()
    world.write(1)
    del world.timelines.lists[1]
    await world.leaving.let_leave(BELOW)
    assert world.timelines.lists.keys() == {2}


@pytest.mark.parametrize("when", ["before shrunk", "before recent", "after recent", "before leave"])
async def test_what_is_written_meanwhile_lets_it_begin_again(when: str) -> None:
    world = World()
    world.write(1)

    def write() -> None:
        world.write(2)
        world.truth.index[AUTHOR] += 1  # the event is handled: pulled, and not pushed

    order, method = when.split()
    (world.before if order == "before" else world.after)(method, write)
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [{1, 2}, {1, 2}]
    assert world.truth.index == {}


async def test_whoever_follows_meanwhile_is_brought_everything() -> None:
    world = World()
    world.write(1, 2)

    def follow() -> None:
        world.truth.follows[3] = {AUTHOR}
        world.truth.active.add(3)
        world.timelines.lists[3] = ModelTimeline(0, b"first")
        world.truth.index[AUTHOR] += 1  # the event is handled: pulled, so nothing is mended

    world.before("leave", follow)
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [{1, 2}] * 3
    assert world.truth.index == {}


async def test_a_further_attempt_brings_what_is_new_alone_unless_a_timeline_was_rewritten() -> None:
    world = World((1, 2, 3))
    world.write(1)

    def disturb() -> None:
        world.write(2)
        world.truth.index[AUTHOR] += 1
        world.timelines.lists[2] = ModelTimeline(0, b"rewritten")
        del world.timelines.lists[3]

    world.before("leave", disturb)
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [{1, 2}, {1, 2}]
    assert world.timelines.round_trips == [[1], [2], [3], [2], [3]], "of whole histories"


async def test_an_author_who_is_decided_about_all_the_time_is_given_up_for_this_round() -> None:
    world = World()

    async def never(author: ShrunkAuthor) -> bool:
        tries.append(author.author_id)
        return False

    tries: list[int] = []
    world.truth.leave = never
    await world.leaving.let_leave(BELOW)
    assert len(tries) == 3
    assert world.truth.index.keys() == {AUTHOR}


async def test_an_error_with_one_author_stops_no_other() -> None:
    world = World()
    world.truth.index[OTHER] = 1

    async def failing(author_ids: Collection[int], limit: int) -> Recent:
        if AUTHOR in author_ids:
            raise Internal("this author's posts cannot be read")
        return await ModelTruth.recent(world.truth, author_ids, limit)

    world.truth.recent = failing
    await world.leaving.let_leave(BELOW)
    assert world.truth.index.keys() == {AUTHOR}


async def test_a_dependency_that_cannot_now_ends_the_round() -> None:
    world = World()
    world.truth.index[OTHER] = 1
    asked: list[Collection[int]] = []

    async def away(author_ids: Collection[int], limit: int) -> Recent:
        asked.append(author_ids)
        raise Unavailable.of_dependency("post")

    world.truth.recent = away
    with pytest.raises(FeedError, match="post"):
        await world.leaving.let_leave(BELOW)
    assert len(asked) == 1
    assert len(world.truth.index) == 2


async def test_who_was_tried_in_vain_comes_last() -> None:
    world = World()
    world.truth.index[OTHER] = 1
    world.truth.follows[1] = {AUTHOR, OTHER}
    world.write(1)
    world.write(2, author=OTHER)
    left: list[int] = []

    async def never(author: ShrunkAuthor) -> bool:
        left.append(author.author_id)
        return False

    world.truth.leave = never
    followers = world.truth.active_followers

    async def endless(author_id: int) -> AsyncGenerator[Sequence[int]]:
        async for page in followers(author_id):
            yield page
            if author_id == OTHER:
                raise Unavailable.of_dependency("graph", "took too long")

    world.truth.active_followers = endless
    with pytest.raises(Unavailable):
        await world.leaving.let_leave(BELOW)
    assert left == [], "the smallest came first"
    with pytest.raises(Unavailable):
        await world.leaving.let_leave(BELOW)
    assert left == [AUTHOR]


async def test_nothing_is_begun_and_nobody_leaves_where_there_is_no_room_for_it() -> None:
    world = World()
    world.write(1)
    world.goes_on = False
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [set(), set()]

    world.goes_on = True
    push = world.timelines.push_history

    async def push_and_stop(viewer_ids: Sequence[int], history: Share, epoch: bytes) -> None:
        await push(viewer_ids, history, epoch)
        world.goes_on = False

    world.timelines.push_history = push_and_stop
    await world.leaving.let_leave(BELOW)
    assert world.shown() == [{1}, set()]
    assert world.truth.index.keys() == {AUTHOR}


async def test_whole_histories_go_out_in_batches_at_a_bounded_pace() -> None:
    world = World(range(1, 6))
    world.write(1)

    async def all_at_once(author_id: int) -> AsyncGenerator[Sequence[int]]:
        yield sorted(world.truth.active)

    world.truth.active_followers = all_at_once
    await world.leader(batch=2, per_second=10).let_leave(BELOW + 1)
    assert world.timelines.round_trips == [[1, 2], [3, 4], [5]]
    assert world.waited == pytest.approx([0.1, 0.2])


# --- whoever read the truth earlier -------------------------------------------------------------------------------------


def follow_and_leave_after(world: World, method: str) -> None:
    """Between the reading of something and what is made of it, a viewer follows the author, who leaves the index then."""
    original: Callable[..., Awaitable[object]] = getattr(world.truth, method)

    async def answered_late(*arguments: object) -> object:
        answer = await original(*arguments)
        setattr(world.truth, method, original)
        world.truth.follows[1] = {AUTHOR}
        world.truth.index[AUTHOR] += 1  # the event is handled: pulled, so nothing is mended
        await world.leaving.let_leave(BELOW)
        assert world.truth.index == {}
        return answer

    setattr(world.truth, method, answered_late)


async def in_vain(world: World) -> None:
    """An attempt that brings everything to everybody, but does not let the author leave."""

    def disturb() -> None:
        world.truth.index[AUTHOR] += 1
        world.goes_on = False

    world.before("leave", disturb)
    await world.leaving.let_leave(BELOW)
    world.goes_on = True


@pytest.mark.parametrize("was_tried_before", [False, True])
async def test_a_reconcile_that_saw_no_follow_takes_nothing_out(*, was_tried_before: bool) -> None:
    world = World((1,))
    world.write(1)
    if was_tried_before:
        await in_vain(world)
    world.truth.follows[1] = set()
    follow_and_leave_after(world, "belongs")
    await Reconcile(world.timelines, world.truth, world.truth, LENGTH)(1, AUTHOR)
    assert world.shown() == [{1}]


@pytest.mark.parametrize("was_tried_before", [False, True])
async def test_a_rebuild_that_saw_no_follow_promises_no_more_than_was_brought(*, was_tried_before: bool) -> None:
    world = World((1,))
    world.write(1, 2, 3, 4, 5)
    if was_tried_before:
        await in_vain(world)
    world.truth.follows[1] = set()
    follow_and_leave_after(world, "followees")
    await Rebuild(world.timelines, world.truth, world.truth, LENGTH)(1)
    assert world.shown() == [{3, 4, 5}]
    assert world.timelines.lists[1].horizon == 2
