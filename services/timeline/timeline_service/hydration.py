"""What becomes of a post when it is to be shown: the pure side of the service `hydrate`."""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from timeline_service.entries import Entry

PostT = TypeVar("PostT")

MOST_AT_ONCE = 100
"""How many posts may be hydrated with one call."""


class Shown(NamedTuple, Generic[PostT]):
    """It may be shown, and this is it."""

    post: PostT


class Withheld(NamedTuple):
    """It is not shown to this viewer, until somebody changes that."""

    with_its_author: bool = False
    """Whether the same holds for all that its author wrote."""


class Unavailable(NamedTuple):
    """Whether it may be shown is not known now."""

    dependency: str
    """Which service did not answer."""


Outcome: TypeAlias = Shown[PostT] | Withheld | Unavailable


class Hydrator(Protocol[PostT]):
    """Turns the entries of a page into what its viewer may see."""

    async def hydrate(self, viewer_id: int, entries: Sequence[Entry]) -> Sequence[Outcome[PostT]]:
        """One outcome for each of the distinct entries, MOST_AT_ONCE at most, in their order.

        Raises one of source.NOT_NOW.
        """
        ...
