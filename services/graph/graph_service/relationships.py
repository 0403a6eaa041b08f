"""How a viewer and other users stand to one another."""

from collections.abc import Sequence, Set
from typing import NamedTuple, Protocol

from feedkit.errors import user_not_found


class Relationship(NamedTuple):
    """How the viewer and one user stand to one another."""

    user_id: int
    following: bool
    """Whether the viewer follows the user."""
    followed_by: bool
    """Whether the user follows the viewer."""
    muting: bool = False
    """Whether the viewer mutes the user."""
    blocking: bool = False
    """Whether the viewer blocks the user."""
    blocked_by: bool = False
    """Whether the user blocks the viewer."""
    favourite: bool = False
    """Whether the user is a favourite of the viewer."""


class Ties(NamedTuple):
    """Those of some users whom a viewer follows, who follow the viewer, and so on."""

    followees: Set[int]
    followers: Set[int]
    muted: Set[int]
    blocked: Set[int]
    blockers: Set[int]
    favourites: Set[int]


class RelationshipStore(Protocol):
    """Where ties are looked up. Deleted users do not exist here."""

    async def ties(self, viewer_id: int, user_ids: Sequence[int]) -> Ties | None:
        """The ties between a viewer and the users; None for an unknown viewer."""
        ...


class Relationships:
    """Tells how a viewer and other users stand to one another."""

    def __init__(self, store: RelationshipStore) -> None:
        self._store = store

    async def get_many(self, viewer_id: int, user_ids: Sequence[int]) -> list[Relationship]:
        """One answer for each distinct id, in the order asked; unknown users have no ties. Raises NotFound."""
        asked = list(dict.fromkeys(user_ids))
        ties = await self._store.ties(viewer_id, asked)
        if ties is None:
            raise user_not_found(viewer_id, "viewer_id")
        return [Relationship(user_id, *(user_id in kind for kind in ties)) for user_id in asked]
