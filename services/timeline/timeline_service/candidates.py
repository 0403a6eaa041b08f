"""Candidates: the newest entries of a home timeline, among which the ranked view chooses an order."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from timeline_service.homes import Home
from timeline_service.merge import Merge
from timeline_service.source import TOP


@dataclass(frozen=True, slots=True)
class Shortlist:
    """Candidates, newest first, as columns of equal length."""

    post_ids: NDArray[np.int64]
    author_ids: NDArray[np.int64]
    origins: NDArray[np.uint8]
    """Where each came from, an `origins.Origin`."""
    are_pulled: NDArray[np.bool_]
    """Whether the author has so many followers that their posts are pulled."""
    tail: int | None
    """The position below which LATEST goes on; None where there is nothing older."""

    def __len__(self) -> int:
        return len(self.post_ids)


async def shortlist(home: Home, most: int) -> Shortlist:
    """The newest entries of a home timeline, opened at the top; fewer than `most` where it ends, or a source fails.

    Where one fails they are what is certain, and the tail begins where that ends. Raises what failed, one of
    source.NOT_NOW, where nothing is certain.
    """
    merge = Merge(home.sources, TOP, home.viewer.authors)
    posts, authors = await merge.take_columns(most)
    if not posts and merge.failure is not None:
        raise merge.failure
    lowest = posts[-1] if len(posts) == most else merge.frontier
    post_ids, author_ids = np.array(posts, np.int64), np.array(authors, np.int64)
    return Shortlist(
        post_ids,
        author_ids,
        home.origins.of(post_ids, author_ids),
        home.origins.are_pulled(author_ids),
        tail=None if merge.ended else lowest,
    )
