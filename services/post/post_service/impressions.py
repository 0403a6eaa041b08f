"""What viewers have seen: of a viewer, a post, a view and a UTC day one impression is kept."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from post_service.authors import Authors


class View(Enum):
    """Where a post was seen. The values are the contract's."""

    LATEST = 1
    RANKED = 2


class Impression(NamedTuple):
    """A post that was shown to a viewer."""

    post_id: int
    position: int
    """Its place in the feed; 0: at the top."""
    dwell_ms: int
    """How long it was looked at, in milliseconds."""
    view: View


class Store(Protocol):
    """Where impressions are kept."""

    async def record(self, viewer_id: int, impressions: Sequence[Impression]) -> int:
        """Keep impressions of posts that stand, and tell of those that are new today; how many these are.

        All or nothing. No two are of one post and one view.
        """
        ...


class Impressions:
    """What the service does with impressions. Recording them again does no harm."""

    def __init__(self, store: Store, authors: Authors) -> None:
        self._store = store
        self._authors = authors

    async def record(self, viewer_id: int, impressions: Iterable[Impression]) -> int:
        """Keep what a viewer has seen; how much of it was new. Raises NotFound (the viewer), Unavailable."""
        await self._authors.require_account(viewer_id, "viewer_id")
        return await self._store.record(viewer_id, merged(impressions))


def merged(impressions: Iterable[Impression]) -> list[Impression]:
    """One impression for each post and view: the first one, with the longest dwell of all."""
    of_pair: dict[tuple[int, View], Impression] = {}
    for impression in impressions:
        first = of_pair.setdefault((impression.post_id, impression.view), impression)
        longest_ms = max(first.dwell_ms, impression.dwell_ms)
        of_pair[impression.post_id, impression.view] = first._replace(dwell_ms=longest_ms)
    return list(of_pair.values())
