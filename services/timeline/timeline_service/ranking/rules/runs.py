"""Nobody speaks too long in a row."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Lets an author have only so many posts in a row, as long as there are posts of others to put between."""

    name: ClassVar[str] = "runs"

    most: int = 2
    """How many posts in a row: 2 or more."""

    def __post_init__(self) -> None:
        """Refuse what cannot be kept beside guaranteed places."""
        if self.most < 2:
            raise ValueError(f"most is {self.most}, not 2 or more")

    def is_kept(self, authors: NDArray[np.int64]) -> bool:
        """Whether nobody has more posts in a row than this among `authors` (n,), from the top down."""
        if len(authors) <= self.most:
            return True
        same = authors[self.most :] == authors[: -self.most]
        for distance in range(1, self.most):
            same &= authors[distance : distance - self.most] == authors[: -self.most]
        return not same.any()


class Run:
    """The posts of one author with which what has been placed ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._author: int | None = None
        self._length = 0
        self.closed: int | None = None
        """The author who may not have the next place as well."""

    def add(self, author: int) -> None:
        """Note whose post got the next place."""
        if author != self._author:
            self._author, self._length, self.closed = author, 1, None
            return
        self._length += 1
        if self._length >= self._most:
            self.closed = author

    def would_be_too_long(self, author: int | None) -> bool:
        """Whether an author may not have both of the next two places."""
        return author is not None and author == self._author and self._length >= self._most - 1
