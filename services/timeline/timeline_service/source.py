"""Where the entries of a home timeline come from.

Every source has one shape, whether it reads a materialised list that was cut off, a cache that may have been evicted, or
the truth: asked from a position, it answers with entries *and with how far down it is complete*. The second half is what
makes a merge of several right (see `merge`): an entry missing above that line is not in the source; an entry missing
below it is just not known yet.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from feedkit import errors
from feedkit.cursor import MAX_ID

TOP = MAX_ID + 1
"""The position above every post. Positions are post ids, as exclusive upper bounds."""
BEGINNING = 0
"""The position below which there is no post."""

NOT_NOW = (errors.Unavailable, errors.Overloaded, errors.DeadlineExceeded)
"""How a source, or hydration, says that it cannot answer now. Any other error is a fault."""


class Stretch(NamedTuple):
    """A piece of a source, from a position down to `complete_to`, as two columns of equal length.

    Columns, because that is how contracts and stores carry entries, and a page looks at few of the hundreds read.
    """

    post_ids: Sequence[int]
    """Post ids: descending, below the position asked from, at or above `complete_to`."""
    author_ids: Sequence[int]
    """The author of the post at the same place."""
    complete_to: int
    """Every entry of the source that is below the position and at or above this id is in the stretch.

    - It is below the position: a stretch always advances, even one without entries.
    - It may be the last entry's id (there may be more), or lower (there is nothing between).
    - 0 means to the beginning: the source has nothing older.
    """


class Source(Protocol):
    """A part of what belongs into a timeline. Sources may overlap; the merge removes what two of them return."""

    def peek(self, position: int, limit: int) -> Stretch | None:
        """What `read` would return, where nobody has to be asked for it; None where somebody has."""
        ...

    async def read(self, position: int, limit: int) -> Stretch:
        """The newest entries strictly below `position`, `limit` at most, and how far down that is complete.

        `position` is above 0, `limit` at least 1. A source may return fewer than `limit` although it has more:
        `complete_to` says where it stopped, and it will be asked again from there.

        Raises one of NOT_NOW where it cannot be read; the same read may be asked again later.
        """
        ...

    def leave_out(self, author_id: int) -> None:
        """Have nothing of an author from now on, because all of it is withheld from the viewer.

        Entries of theirs may still be returned where leaving them out saves nothing.
        """
        ...
