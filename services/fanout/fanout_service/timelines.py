"""Home timelines, as the steps that write them see them."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """A post in a home timeline."""

    post_id: int
    author_id: int


class State(NamedTuple):
    """What a timeline says of itself."""

    horizon: int
    """Every post above it that belongs into the timeline is in it."""
    epoch: bytes
    """New at creation and at every rewrite; pushes leave it."""


class Timelines(Protocol):
    """The materialised timelines. Each step is atomic; all raise Unavailable where the store does not answer.

    Entries are given oldest first. `left_out` is the newest post that was left out because there was no more room, 0 if
    none was. What exceeds a timeline's length is trimmed, and raises its horizon.
    """

    async def push(self, viewer_ids: Sequence[int], entries: Sequence[Entry]) -> None:
        """Add entries to those timelines that exist, in one round trip."""
        ...

    async def withdraw(self, viewer_ids: Sequence[int], post_ids: Sequence[int]) -> None:
        """Take deleted posts out of those timelines that exist, in one round trip. What they promise stays true."""
        ...

    async def state(self, viewer_id: int) -> State | None:
        """What a timeline says of itself; None where there is none."""
        ...

    async def begin_anew(self, viewer_id: int) -> None:
        """Put an empty timeline in the place of whatever there is; it promises nothing yet."""
        ...

    async def remove(self, viewer_id: int) -> None:
        """Leave no timeline."""
        ...

    async def rebuild(self, viewer_id: int, epoch: bytes, entries: Sequence[Entry], left_out: int) -> bool:
        """End a rebuild; False where the timeline is another by now, and the rebuild has to start again."""
        ...

    async def add_author(
        self, viewer_id: int, epoch: bytes, author_id: int, entries: Sequence[Entry], left_out: int
    ) -> bool:
        """End a reconcile with somebody whose posts belong into it; False as in `rebuild`."""
        ...

    async def remove_author(self, viewer_id: int, epoch: bytes, author_id: int) -> bool:
        """End a reconcile with somebody whose posts do not; False as in `rebuild`."""
        ...


class Recent(NamedTuple):
    """An answer of the pull query: posts, newest first, and how far down they are all there are."""

    entries: Sequence[Entry]
    complete_to: int
    """Every post down to this id is in it; 0: there is nothing older."""


class Posts(Protocol):
    """The truth about posts."""

    async def recent(self, author_ids: Collection[int], limit: int) -> Recent:
        """The newest posts of these authors, at most so many. Raises `feedkit.errors` where `post` does not answer."""
        ...


class Share(NamedTuple):
    """As much of the newest posts as a timeline has room for."""

    entries: Sequence[Entry]
    """Oldest first."""
    left_out: int
    """The newest post that is not among them, or a bound above it; 0: all are."""


def share_of(recent: Recent, length: int) -> Share:
    """What a timeline of some length takes of the newest posts, of which one more than it has room for were asked for."""
    taken = recent.entries[:length]
    is_more = len(recent.entries) > length
    left_out = recent.entries[length].post_id if is_more else max(recent.complete_to - 1, 0)
    return Share(taken[::-1], left_out)
