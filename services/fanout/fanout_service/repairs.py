"""Carries out wishes for timelines to be made equal to the truth, as fast as is good for everybody else."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from feedkit.errors import NotFound

from fanout_service.concurrency import all_of
from fanout_service.events import Wish
from fanout_service.pace import Pace

logger = logging.getLogger(__name__)


class Repairs:
    """Rebuilds and reconciles, one after another for a viewer, several viewers at a time, at a bounded pace."""

    def __init__(
        self,
        rebuild: Callable[[int], Awaitable[None]],
        reconcile: Callable[[int, int], Awaitable[None]],
        pace: Pace,
        at_once: int,
    ) -> None:
        """`rebuild` is given a viewer, `reconcile` a viewer and an author."""
        self._rebuild = rebuild
        self._reconcile = reconcile
        self._pace = pace
        self._at_once = at_once

    async def carry_out(self, wishes: Sequence[Wish]) -> None:
        """Fulfil wishes, none of which has been started. Raises the first error; then all may be given again."""
        await all_of((self._mend(mine) for mine in without_repetition(wishes)), self._at_once)

    async def _mend(self, wishes: Iterable[Wish]) -> None:
        for wish in wishes:
            await self._pace.turn()
            try:
                if wish.is_rebuild:
                    await self._rebuild(wish.viewer_id)
                else:
                    await self._reconcile(wish.viewer_id, wish.author_id)
            except NotFound as error:
                logger.warning("a wish is void: %s", error.message, extra={"viewer_id": wish.viewer_id})


def without_repetition(wishes: Iterable[Wish]) -> list[list[Wish]]:
    """The different wishes by viewer, in the order in which they came; beside a rebuild nothing else is needed.

    Only wishes that have not been started may be taken together: one that is under way may have read what has changed
    since.
    """
    by_viewer: dict[int, dict[Wish, None]] = {}
    for wish in wishes:
        by_viewer.setdefault(wish.viewer_id, {})[wish] = None
    return [[wish for wish in mine if wish.is_rebuild] or list(mine) for mine in by_viewer.values()]
