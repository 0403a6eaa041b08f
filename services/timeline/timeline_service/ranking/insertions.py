"""What the house puts between the posts of a page, labelled as such.

An insertion stands beside the page: it has an index among the page's posts, and is none of them. So it takes nobody's
place, counts against no size, and no cursor knows of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Insertion(NamedTuple):
    """Something between the posts that nobody whom the viewer follows wrote."""

    before_index: int
    """Before which of the page's posts it stands; as many as there are: after the last."""
    kind: str
    """What it is: `announcement`."""
    label: str
    """What it has to be labelled with, for the reader to see."""
    text: str
    url: str
    """Where it leads; empty if nowhere."""


class Inserter(Protocol):
    """Decides what is put into a page."""

    def insertions(self, viewer_id: int, begins_at: int, places: Sequence[int], ends_at: int) -> Sequence[Insertion]:
        """What to put into a page, from the top down.

        The page has the places of the whole walk from `begins_at` on, 0 at the top, to the one before `ends_at`. It shows
        posts at `places`, ascending; those at its other places are withheld.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """Says one thing of the house to everybody: before a slot, and then again every so many posts."""

    text: str
    label: str
    url: str = ""
    slot: int = 3
    """Before which post of the walk it stands first; 0: at the very top."""
    every: int = 0
    """After how many posts it is said again; 0: never."""

    def __post_init__(self) -> None:
        """Refuse an announcement that says nothing, is not labelled, or stands nowhere."""
        if not self.text or not self.label or self.slot < 0 or self.every < 0:
            raise ValueError("an announcement has a text, a label, and a slot and a distance of 0 or more")

    def insertions(self, viewer_id: int, begins_at: int, places: Sequence[int], ends_at: int) -> Sequence[Insertion]:
        """See `Inserter`. Where the post at a slot is withheld it stands before the next one that is shown."""
        befores, places = [begins_at - 1, *places], [*places, ends_at - 1]
        return [
            Insertion(index, "announcement", self.label, self.text, self.url)
            for index, (before, place) in enumerate(zip(befores, places, strict=True))
            if self._latest_slot(place) > before
        ]

    def _latest_slot(self, place: int) -> int:
        """The last place up to this one before which it stands; -1 where there is none."""
        if place < self.slot:
            return -1
        return place - (place - self.slot) % self.every if self.every else self.slot
