"""Runs asynchronous steps one at a time, in an order that a test chooses."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

QUIET_ROUNDS = 12
"""Rounds of the event loop after which every task waits for its turn; between two turns they only call one another."""


class Turns:
    """Every step of every task waits here until it is let go; what is between two steps is atomic."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks: dict[asyncio.Task[None], Callable[[], Coroutine[Any, Any, None]]] = {}

    async def turn(self, _seconds: float = 0.0) -> None:
        """Wait for one's turn."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin some work."""
        self._tasks[asyncio.create_task(work())] = work

    async def step(self, choose: Callable[[int], int]) -> bool:
        """Let one step happen: `choose` picks one of so many. False where none is left."""
        for _ in range(QUIET_ROUNDS):
            await asyncio.sleep(0)
        self._waiting = [waiting for waiting in self._waiting if not waiting.done()]
        if not self._waiting:
            return False
        self._waiting.pop(choose(len(self._waiting))).set_result(None)
        return True

    async def crash(self, choose: Callable[[int], int]) -> None:
        """End some work in its midst, and begin it anew."""
        alive = [task for task in self._tasks if not task.done()]
        if alive:
            task = alive[choose(len(alive))]
            task.cancel()
            await asyncio.wait([task])
            self.start(self._tasks.pop(task))

    async def finish(self, choose: Callable[[int], int]) -> None:
        """Let everything come to its end, and raise what went wrong."""
        while await self.step(choose):
            pass
        assert all(task.done() for task in self._tasks), "work that waits for something else than its turn"
        for task in self._tasks:
            if not task.cancelled():
                task.result()
