"""The pull source: the newest posts of all authors, from the truth. It is complete down to anything."""

from collections.abc import Collection
from typing import Protocol

from timeline_service.source import BEGINNING, Stretch


class Pull(Protocol):
    """Where the posts of many authors are pulled from."""

    async def recent(self, authors: Collection[int], position: int, limit: int) -> Stretch:
        """The newest posts of these authors below a position; otherwise as `source.Source.read`."""
        ...


class PullSource:
    """Everything that some authors wrote, pulled. See `source.Source`."""

    def __init__(self, pull: Pull, authors: Collection[int]) -> None:
        self._pull = pull
        self._authors = frozenset(authors)

    def peek(self, position: int, limit: int) -> Stretch | None:
        """See `source.Source`; the truth has to be asked, unless nobody is left who wrote anything."""
        return None if self._authors else Stretch((), (), BEGINNING)

    async def read(self, position: int, limit: int) -> Stretch:
        """See `source.Source`."""
        return await self._pull.recent(self._authors, position, limit)

    def leave_out(self, author_id: int) -> None:
        """See `source.Source`."""
        self._authors -= {author_id}
