"""A timeline that was found missing is wished for soon, not too often, and never at the cost of the read."""

import asyncio

from feedkit.errors import Unavailable
from timeline_service.rebuild_wishes import RebuildWishes

from .polling import until
from .world import Clock

PAUSE = 5.0


class Fanout:
    """Takes wishes; fails as often as it is told to, and answers only while `open`."""

    def __init__(self, failures: int = 0) -> None:
        self.wished: list[int] = []
        self.failures = failures
        self.open = asyncio.Event()
        self.open.set()

    async def rebuild(self, viewer_id: int) -> None:
        """Take a wish."""
        self.wished.append(viewer_id)
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise Unavailable.of_dependency("fanout")


async def test_a_viewers_timeline_is_wished_for_once_in_a_pause() -> None:
    fanout, clock = Fanout(), Clock()
    async with RebuildWishes(fanout.rebuild, clock, pause_seconds=PAUSE) as wishes:
        for viewer in (1, 2, 1, 1):
            wishes.wish(viewer)
        await until(lambda: len(fanout.wished) == 2)
        clock.now += PAUSE - 0.01
        wishes.wish(1)
        assert sorted(fanout.wished) == [1, 2]
        clock.now += 0.01
        wishes.wish(1)
    assert sorted(fanout.wished) == [1, 1, 2]


async def test_where_fanout_is_away_the_next_read_wishes_again() -> None:
    fanout = Fanout(failures=1)
    async with RebuildWishes(fanout.rebuild, Clock(), pause_seconds=PAUSE) as wishes:
        wishes.wish(1)
        await until(lambda: len(fanout.wished) == 1)
        await asyncio.sleep(0)
        wishes.wish(1)
        wishes.wish(1)
    assert fanout.wished == [1, 1]


async def test_a_wish_that_waits_is_not_made_twice() -> None:
    fanout, clock = Fanout(), Clock()
    wishes = RebuildWishes(fanout.rebuild, clock, pause_seconds=PAUSE)
    wishes.wish(1)
    clock.now += PAUSE
    wishes.wish(1)
    async with wishes:
        await until(lambda: len(fanout.wished) == 1)
    assert fanout.wished == [1]
