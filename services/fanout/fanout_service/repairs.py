"""Carries out wishes for timelines to be mended and for deleted users to be erased, as fast as is good for everybody."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from feedkit.errors import FailedPrecondition, NotFound

from fanout_service.concurrency import all_of
from fanout_service.events import AnyWish, EraseWish, Wish
from fanout_service.pace import Pace

logger = logging.getLogger(__name__)


class Repairs:
    """Rebuilds, reconciles and erases, one after another for a user, several users at a time, at a bounded pace."""

    def __init__(
        self,
        rebuild: Callable[[int], Awaitable[None]],
        reconcile: Callable[[int, int], Awaitable[None]],
        erase: Callable[[int], Awaitable[None]],
        pace: Pace,
        at_once: int,
    ) -> None:
        """`rebuild` is given a viewer, `reconcile` a viewer and an author, `erase` a user."""
        self._rebuild = rebuild
        self._reconcile = reconcile
        self._erase = erase
        self._pace = pace
        self._at_once = at_once

    async def carry_out(self, wishes: Sequence[AnyWish]) -> None:
        """Fulfil wishes, none of which has been started. Raises the first error; then all may be given again."""
        await all_of((self._fulfil_all(mine) for mine in without_repetition(wishes)), self._at_once)

    async def _fulfil_all(self, wishes: Iterable[AnyWish]) -> None:
        for wish in wishes:
            await self._pace.turn()
            try:
                await self._fulfil(wish)
            except (NotFound, FailedPrecondition) as error:
                # Of nobody there is a timeline, and of nobody who is not deleted is anything erased.
                logger.warning("a wish is void: %s", error.message, extra=wish._asdict())

    async def _fulfil(self, wish: AnyWish) -> None:
        if isinstance(wish, EraseWish):
            await self._erase(wish.user_id)
        elif wish.is_rebuild:
            await self._rebuild(wish.viewer_id)
        else:
            await self._reconcile(wish.viewer_id, wish.author_id)


def without_repetition(wishes: Iterable[AnyWish]) -> list[list[AnyWish]]:
    """The different wishes by user, in the order in which they came; beside a rebuild no reconcile is needed.

    Only wishes that have not been started may be taken together: one that is under way may have read what has changed
    since.
    """
    by_user: dict[int, dict[AnyWish, None]] = {}
    for wish in wishes:
        user_id = wish.user_id if isinstance(wish, EraseWish) else wish.viewer_id
        by_user.setdefault(user_id, {})[wish] = None
    return [_needed(mine) for mine in by_user.values()]


def _needed(wishes: Iterable[AnyWish]) -> list[AnyWish]:
    mine = list(wishes)
    rebuilt = any(isinstance(wish, Wish) and wish.is_rebuild for wish in mine)
    return [wish for wish in mine if isinstance(wish, EraseWish) or wish.is_rebuild or not rebuilt]
