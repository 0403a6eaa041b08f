"""What is over is removed in steps, for ever, whatever fails in between."""

import asyncio
import logging

import pytest
from feedkit.errors import Unavailable
from post_service.background import in_background
from post_service.retention import PURGE_BATCH, purge


class Rows:
    """So many that are over; asked for them, it fails at times."""

    def __init__(self, left: int, *failures: Exception) -> None:
        self.left = left
        self.failures = list(failures)
        self.taken: list[int] = []

    async def remove(self, at_most: int) -> int:
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        removed = min(self.left, at_most)
        self.left -= removed
        self.taken.append(removed)
        return removed


async def until_nothing_is_left(rows: Rows) -> None:
    async with asyncio.timeout(5):
        async with in_background(purge("old rows", rows.remove, every_seconds=0.001)):
            while not rows.taken or rows.taken[-1] == PURGE_BATCH:  # noqa: ASYNC110 (nobody tells of a turn)
                await asyncio.sleep(0.001)


async def test_a_turn_goes_on_until_a_step_is_not_full() -> None:
    rows = Rows(2 * PURGE_BATCH + 5)
    await until_nothing_is_left(rows)
    assert rows.taken[:3] == [PURGE_BATCH, PURGE_BATCH, 5]


@pytest.mark.parametrize("failure", [Unavailable.of_dependency("postgres"), ValueError("a fault")])
async def test_what_failed_is_logged_by_name_and_tried_again(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    rows = Rows(3, failure)
    with caplog.at_level(logging.WARNING):
        await until_nothing_is_left(rows)
    assert rows.left == 0
    assert "old rows were not removed" in caplog.text
