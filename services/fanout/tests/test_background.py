"""Chores are done again and again, whatever becomes of them."""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from fanout_service.background import Chore, doing
from feedkit.errors import Unavailable


class Done:
    """A chore, and what becomes of it each time; at the end it is counted."""

    def __init__(self, outcomes: Iterable[Exception | None]) -> None:
        self._outcomes: Iterator[Exception | None] = iter(outcomes)
        self.all = asyncio.Event()
        self.at: list[float] = []

    async def __call__(self) -> None:
        self.at.append(asyncio.get_running_loop().time())
        outcome = next(self._outcomes, self.all)
        if outcome is self.all:
            self.all.set()
        elif isinstance(outcome, Exception):
            raise outcome


async def test_what_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    away = Unavailable.of_dependency("redis")
    chore = Done([None, away, away, RuntimeError("unforeseen"), None])
    with caplog.at_level("INFO"):
        async with asyncio.timeout(5), doing([Chore("washing up", chore, 0.001, 0.001)]):
            await chore.all.wait()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "washing up has to wait: redis: cannot be reached"),
        ("ERROR", "washing up failed"),
        ("INFO", "washing up goes on"),
    ]


async def test_the_wait_grows_while_it_fails_to_a_bound() -> None:
    chore = Done([Unavailable.of_dependency("redis")] * 5)
    async with asyncio.timeout(5), doing([Chore("washing up", chore, 0.02, 0.08)]):
        await chore.all.wait()
    waits = [later - earlier for earlier, later in zip(chore.at, chore.at[1:], strict=False)]
    assert [wait >= least for wait, least in zip(waits, [0.036, 0.072, 0.072, 0.072], strict=False)] == [True] * 4


async def test_a_chore_that_takes_long_holds_up_no_other() -> None:
    async def long() -> None:
        await asyncio.Event().wait()

    chore = Done([None, None])
    async with asyncio.timeout(5), doing([Chore("long", long, 1, 1), Chore("washing up", chore, 0.001, 0.001)]):
        await chore.all.wait()
