"""How authors stand: whether their posts are pushed, pulled, or no more."""

from collections.abc import Collection
from typing import NamedTuple, Protocol


class Standings(NamedTuple):
    """Those of some authors who are not pushed."""

    pulled: Collection[int]
    """Their posts are read from elsewhere."""
    deleted: Collection[int]
    """Their accounts are deleted: whatever they wrote, and whatever leads to them, is to be erased."""


class Authors(Protocol):
    """The truth about authors. To be asked for at most 1,000 at a time."""

    async def classify(self, author_ids: Collection[int]) -> Standings:
        """Decide how they stand from now on. Whoever becomes pulled by this question is in the index before the answer."""
        ...

    async def standings(self, author_ids: Collection[int]) -> Standings:
        """How they stand already. Nobody enters the index by this question, because no timeline is told of its answer."""
        ...
