"""Runs asynchronous work one step at a time, in an order that a test chooses."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

QUIET_ROUNDS = 30
"""Rounds of the event loop after which everything waits for its turn; between two turns there are only calls."""

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
Choose: TypeAlias = Callable[[int], int]
"""Picks one of so many."""


class Turns:
    """Every step of all work waits here until it is let go; what is between two steps is atomic."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._mortal: dict[asyncio.Task[None], Work] = {}
        self._others: list[asyncio.Task[None]] = []

    async def turn(self, _seconds: float = 0.0) -> None:
        """Wait for one's turn."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def start(self, work: Work, *, mortal: bool = False) -> None:
        """Begin some work, which may be broken off and begun anew if it is `mortal`."""
        task = asyncio.create_task(work())
        if mortal:
            self._mortal[task] = work
        else:
            self._others.append(task)

    async def step(self, choose: Choose) -> bool:
        """Let one step happen. False where none is left. Raises what some work raised."""
        for _ in range(QUIET_ROUNDS):
            await asyncio.sleep(0)
        self._raise_failures()
        self._waiting = [waiting for waiting in self._waiting if not waiting.done()]
        if not self._waiting:
            return False
        self._waiting.pop(choose(len(self._waiting))).set_result(None)
        return True

    async def crash(self, choose: Choose) -> None:
        """Break off some mortal work, and begin it anew."""
        alive = [task for task in self._mortal if not task.done()]
        if alive:
            task = alive[choose(len(alive))]
            task.cancel()
            await asyncio.wait([task])
            self.start(self._mortal.pop(task), mortal=True)

    async def finish(self, choose: Choose) -> None:
        """Let everything come to its end."""
        while await self.step(choose):
            pass
        assert all(task.done() for task in (*self._mortal, *self._others)), "something waits for more than its turn"
        self._mortal.clear()
        self._others.clear()

    def _raise_failures(self) -> None:
        for task in (*self._mortal, *self._others):
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
