"""The posts among which the ranked view chooses an order, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Some posts, newest first, and what is known of each: `n` rows. What is not known is 0.

    Decayed sums are as they were at the time beside them; see `features.faded`.
    """

    post_ids: NDArray[np.int64]
    """(n,), descending."""
    author_ids: NDArray[np.int64]
    """(n,)."""
    created_at_ms: NDArray[np.int64]
    """(n,) Unix milliseconds."""
    has_media: NDArray[np.bool_]
    """(n,)."""
    is_reply: NDArray[np.bool_]
    """(n,)."""
    topics: NDArray[np.uint32]
    """(n, 4): the numbers of its first hashtags; 0 where there are fewer."""
    sums: NDArray[np.float32]
    """(n, OBSERVED): of the post, since it was written."""
    recent: NDArray[np.float32]
    """(n, OBSERVED): the same, decayed with POST_HALF_LIFE."""
    recent_at: NDArray[np.float64]
    """(n,) Unix seconds: when `recent` was what it is."""
    author_recent: NDArray[np.float32]
    """(n, OBSERVED): of all that the author wrote, decayed with AUTHOR_HALF_LIFE."""
    author_recent_at: NDArray[np.float64]
    """(n,) Unix seconds: when `author_recent` was what it is."""
    affinity: NDArray[np.float32]
    """(n,): of the viewer to the author, as it is now; below 0: dislike."""
    is_own: NDArray[np.bool_]
    """(n,): whether the viewer wrote it."""
    is_favourite: NDArray[np.bool_]
    """(n,): whether the author is a favourite of the viewer."""
    is_pulled: NDArray[np.bool_]
    """(n,): whether the author has so many followers that their posts are pulled."""
    was_seen: NDArray[np.bool_]
    """(n,): whether the viewer has seen it lately."""
    was_hidden: NDArray[np.bool_]
    """(n,): whether the viewer has hidden it."""

    def __len__(self) -> int:
        return len(self.post_ids)
