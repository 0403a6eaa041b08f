"""Where wishes are left for whoever fulfils them."""

from collections.abc import Sequence
from typing import Protocol

from fanout_service.events import AnyWish


class Wishes(Protocol):
    """What is wished for of all processes together."""

    async def leave(self, work: Sequence[AnyWish]) -> None:
        """Return when they cannot be lost any more. Raises Unavailable where that is not known."""
        ...
