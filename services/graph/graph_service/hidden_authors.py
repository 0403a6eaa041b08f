"""Whose posts are withheld from a viewer, whatever leads to them."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

MOST_BLOCKED = 10_000
"""How many who block or are blocked are listed."""


class Hiding(NamedTuple):
    """Who hides whom, as far as it concerns one viewer. All are distinct."""

    blocked: Sequence[int]
    """All whom the viewer blocks."""
    blockers: Sequence[int]
    """Who block the viewer, the newest block first, cut off where it was asked for."""
    muted: Sequence[int]
    """All whom the viewer mutes."""


class HiddenAuthors(NamedTuple):
    """Whose posts are withheld from a viewer; ids ascending."""

    blocked_ids: Sequence[int]
    """Whom the viewer blocks, and who block the viewer."""
    muted_ids: Sequence[int]
    more_block: bool
    """Whether there are more who block the viewer than are listed."""


class HidingStore(Protocol):
    """Where blocks and mutes are read."""

    async def hiding(self, viewer_id: int, most_blockers: int) -> Hiding:
        """Who hides whom for a viewer, with the newest `most_blockers`; nobody for an unknown viewer."""
        ...


class HiddenAuthorLists:
    """Tells whose posts are withheld from viewers."""

    def __init__(self, store: HidingStore) -> None:
        self._store = store

    async def get(self, viewer_id: int) -> HiddenAuthors:
        """Whose posts are withheld from a viewer, in one round trip to the store; nobody's for an unknown one."""
        return listed(await self._store.hiding(viewer_id, MOST_BLOCKED + 1), MOST_BLOCKED)


def listed(hiding: Hiding, most: int) -> HiddenAuthors:
    """All whom the viewer blocks and mutes, and as many of those who block the viewer as leave it at `most`, or fewer.

    `hiding` has more blockers than `most`, if there are. The viewer blocks no more than `most`.
    """
    blocked = set(hiding.blocked)
    others = [blocker for blocker in hiding.blockers if blocker not in blocked]
    room = most - len(blocked)
    return HiddenAuthors(
        blocked_ids=sorted(blocked.union(others[:room])),
        muted_ids=sorted(hiding.muted),
        more_block=len(others) > room or len(hiding.blockers) > most,
    )
