"""Orders that are kept, so that the pages of a ranked walk neither repeat nor skip, and the tokens that lead through them.

The packed form of an order, whose numbers are big-endian:

    version (1 byte) · number of entries (2) and of moves (4) · length of the rules' names (2) · tail (8; 0: none)
    the names of the rules that moved posts, UTF-8, joined by line feeds
    entries, from the top down: post id (8) · author id (8) · origin, with PULLED_AUTHOR (1) · scored place (2)
    moves, in the order in which they were made: place at the end (2) · rule, by index (1) · from place (2) · to place (2)

Whatever is of another version, or no order at all, is as good as gone: a new one is made.
"""

import re
import secrets
import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from feedkit.cursor import Position
from feedkit.errors import InvalidArgument
from numpy.typing import NDArray

from timeline_service.candidates import Shortlist
from timeline_service.entries import Entry
from timeline_service.ranking import arrangement
from timeline_service.ranking.arrangement import Move
from timeline_service.source import BEGINNING

VERSION = 1
PULLED_AUTHOR = 0x80
"""Is set where the author has so many followers that their posts are pulled."""

_HEAD = struct.Struct(">BHIHq")
_ENTRIES = np.dtype([("post", ">i8"), ("author", ">i8"), ("origin", "u1"), ("scored_place", ">u2")])
_MOVES = np.dtype([("place", ">u2"), ("rule", "u1"), ("from_place", ">u2"), ("to_place", ">u2")])


@dataclass(frozen=True, slots=True, eq=False)
class KeptOrder:
    """An order of candidates, with what it takes to go on with it later, and to tell how it came about."""

    entries: NDArray[np.void]
    """_ENTRIES, from the top down."""
    moves_made: NDArray[np.void]
    """_MOVES, in the order in which the rules were applied."""
    rules: Sequence[str]
    """The names of rules that moves refer to."""
    tail: int | None
    """The position below which LATEST goes on; None where there is nothing older."""

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def of(cls, candidates: Shortlist, order: arrangement.Order) -> "KeptOrder":
        """What is kept of an order of these candidates."""
        rows = order.rows
        entries = np.empty(len(rows), _ENTRIES)
        entries["post"] = candidates.post_ids[rows]
        entries["author"] = candidates.author_ids[rows]
        entries["origin"] = (candidates.origins | (PULLED_AUTHOR * candidates.are_pulled).astype(np.uint8))[rows]
        entries["scored_place"] = order.scored_places[rows]
        return cls(entries, _moves(order), [step.rule for step in order.steps], candidates.tail)

    def pack(self) -> bytes:
        """The packed form."""
        names = "\n".join(self.rules).encode()
        head = _HEAD.pack(VERSION, len(self.entries), len(self.moves_made), len(names), self.tail or BEGINNING)
        return b"".join((head, names, self.entries.tobytes(), self.moves_made.tobytes()))

    @classmethod
    def unpack(cls, packed: bytes) -> "KeptOrder | None":
        """The order in a packed form; None where it is none of this version."""
        if len(packed) < _HEAD.size:
            return None
        version, entries, moves, names, tail = _HEAD.unpack_from(packed)
        entries_at = _HEAD.size + names
        moves_at = entries_at + entries * _ENTRIES.itemsize
        if version != VERSION or len(packed) != moves_at + moves * _MOVES.itemsize:
            return None
        try:
            rules = packed[_HEAD.size : entries_at].decode().split("\n")
        except UnicodeDecodeError:
            return None
        order = cls(
            np.frombuffer(packed, _ENTRIES, entries, entries_at),
            np.frombuffer(packed, _MOVES, moves, moves_at),
            rules,
            None if tail == BEGINNING else tail,
        )
        return order if order.is_sound else None

    @property
    def is_sound(self) -> bool:
        """Whether its entries can be entries, and its moves refer to rules that it names."""
        ids_exist = bool((self.entries["post"] > 0).all() and (self.entries["author"] > 0).all())
        rules_exist = not len(self.moves_made) or int(self.moves_made["rule"].max()) < len(self.rules)
        return ids_exist and rules_exist and (self.tail is None or self.tail > BEGINNING)

    def places(self, start: int, most: int, authors: Container[int], left_out: Container[int]) -> list[int]:
        """The next places from `start` on whose authors are among `authors` and not left out, `most` at most."""
        found: list[int] = []
        for place, author_id in enumerate(self.entries["author"][start:].tolist(), start):
            if author_id in authors and author_id not in left_out:
                found.append(place)
                if len(found) == most:
                    break
        return found

    def entries_at(self, places: Sequence[int]) -> list[Entry]:
        """The entries at some places."""
        some = self.entries[list(places)]
        return [Entry(*entry) for entry in zip(some["post"].tolist(), some["author"].tolist(), strict=True)]

    def candidates_at(self, places: Sequence[int]) -> Shortlist:
        """The entries at some places as they were candidates, in the order of the places."""
        some = self.entries[list(places)]
        origins = some["origin"]
        return Shortlist(
            some["post"].astype(np.int64),
            some["author"].astype(np.int64),
            origins & np.uint8(PULLED_AUTHOR - 1),
            origins >= PULLED_AUTHOR,
            tail=None,
        )

    def scored_place(self, place: int) -> int:
        """The place that an entry has by score alone."""
        return int(self.entries["scored_place"][place])

    def moves(self, place: int) -> list[Move]:
        """The rules that moved an entry, in the order in which they were applied."""
        made = self.moves_made[self.moves_made["place"] == place]
        befores, afters = made["from_place"].tolist(), made["to_place"].tolist()
        return [
            Move(self.rules[int(rule)], before, after)
            for rule, before, after in zip(made["rule"].tolist(), befores, afters, strict=True)
        ]


def _moves(order: arrangement.Order) -> NDArray[np.void]:
    """All moves of an order."""
    last_place = np.empty(len(order.rows), np.intp)
    last_place[order.rows] = np.arange(len(order.rows))
    moved = [np.flatnonzero(step.meant) for step in order.steps]
    made = np.empty(sum(map(len, moved)), _MOVES)
    begin = 0
    for rule, (step, rows) in enumerate(zip(order.steps, moved, strict=True)):
        these = made[begin : begin + len(rows)]
        these["place"], these["rule"] = last_place[rows], rule
        these["from_place"], these["to_place"] = step.before[rows], step.after[rows]
        begin += len(rows)
    return made


# --- tokens ------------------------------------------------------------------------------------------------------------

PREFIX = "r:"
"""What every token of the ranked view begins with, and none of LATEST."""

_IN_ORDER = re.compile(r"r:([0-9a-f]{16}):(0|[1-9][0-9]{0,4})", re.ASCII)
_BELOW = "r:below:"
_RULE = "must be empty or a cursor of the ranked view that this call returned"


def new_snapshot() -> bytes:
    """An id that no other order has, 8 bytes."""
    return secrets.token_bytes(8)


class InOrder(NamedTuple):
    """A place in a kept order."""

    snapshot: bytes
    """The order's id, 8 bytes."""
    offset: int
    """The place of the next entry."""

    def __str__(self) -> str:
        return f"{PREFIX}{self.snapshot.hex()}:{self.offset}"


class Below(NamedTuple):
    """A position in LATEST, below all candidates."""

    position: int

    def __str__(self) -> str:
        return f"{_BELOW}{Position.of(self.position)}"


def parse(token: str) -> InOrder | Below:
    """Read a token of the ranked view. Raises InvalidArgument, INVALID_PAGE_TOKEN, for anything else."""
    if match := _IN_ORDER.fullmatch(token):
        return InOrder(bytes.fromhex(match[1]), int(match[2]))
    position = Position.parse(token.removeprefix(_BELOW)) if token.startswith(_BELOW) else None
    if position is None:
        raise InvalidArgument.of_field("page_token", _RULE, reason="INVALID_PAGE_TOKEN")
    return Below(position.id_bound)
