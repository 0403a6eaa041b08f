"""What a programme is made of: everything that people, operators and fate can do to a mesh, as data.

A programme is a sequence of steps. As it is written before it is run, nothing that happens can change it: the same seed
gives the same programme, and a part of it can be run alone. People are numbered from 0; posts by the order in which they
are written.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

PERSON_KEYS = ("tl", "ctx", "hidden", "own", "recents", "user")
"""The kinds of keys that are kept for one person; there is one for each post too."""
POST_KEY = "post"


class Standing(Enum):
    """How an account stands."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"


# --- acts: what somebody asks for, and is answered -----------------------------------------------------------------------


@dataclass(frozen=True)
class Write:
    """Somebody posts."""

    person: int
    post: int
    text: str


@dataclass(frozen=True)
class WriteMany:
    """Somebody posts so often in a row that home timelines are trimmed."""

    person: int
    posts: range


@dataclass(frozen=True)
class Edit:
    """Somebody edits what they have posted."""

    person: int
    post: int
    text: str


@dataclass(frozen=True)
class Delete:
    """Somebody deletes what they have posted."""

    person: int
    post: int


class Tie(Enum):
    """What one person may do to another, and undo."""

    FOLLOW = "follow"
    BLOCK = "block"
    MUTE = "mute"


@dataclass(frozen=True)
class Bind:
    """Somebody begins to follow, block or mute somebody else."""

    person: int
    tie: Tie
    other: int


@dataclass(frozen=True)
class Loose:
    """Somebody ends to follow, block or mute somebody else."""

    person: int
    tie: Tie
    other: int


@dataclass(frozen=True)
class FollowMany:
    """Somebody follows many at once."""

    person: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class Judge:
    """An operator suspends, restores or deletes an account."""

    person: int
    standing: Standing


Act: TypeAlias = Write | WriteMany | Edit | Delete | Bind | Loose | FollowMany | Judge


# --- what Redis forgets, and who reads -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evict:
    """A key vanishes: one kind of those that are kept for a person, or a post's."""

    kind: str
    number: int


@dataclass(frozen=True)
class Look:
    """Somebody reads everything that is shown to them, so many a page."""

    person: int
    limit: int


Move: TypeAlias = Act | Evict | Look


@dataclass(frozen=True)
class Alone:
    """One act, and whoever reads right after it, besides those whom it concerns."""

    act: Act
    eyes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Together:
    """Several people act at the same time, each one move after the other, and read after each act."""

    threads: tuple[tuple[Move, ...], ...]
    fate: "Fate | None" = None
    """What happens to a process meanwhile."""


@dataclass(frozen=True)
class Race:
    """Again and again: keys vanish, and at once many read what they were for while somebody changes it."""

    rounds: tuple[tuple[Act, tuple[Evict, ...]], ...]
    reader: int


# --- what happens to a mesh ----------------------------------------------------------------------------------------------


class Blow(Enum):
    """What may happen to a process."""

    KILL = "SIGKILL"
    STOP = "SIGTERM"
    FREEZE = "SIGSTOP"


@dataclass(frozen=True)
class Fate:
    """A process is ended and started again, or stands still for so many tenths of a second."""

    process: str
    blow: Blow
    tenths: int = 0


@dataclass(frozen=True)
class ForgetEverything:
    """Redis loses all keys."""


@dataclass(frozen=True)
class ForgetPerson:
    """Redis loses all keys that are kept for somebody."""

    person: int


@dataclass(frozen=True)
class LoseBroker:
    """Kafka dies, with all that is in it, when nothing in it is needed any more."""


@dataclass(frozen=True)
class Replay:
    """Everything that Kafka has of this programme is handled once more."""


@dataclass(frozen=True)
class DaysPass:
    """So many days pass, in which nobody does anything."""

    days: int


@dataclass(frozen=True)
class Set:
    """A setting of `fanout` is changed, as in a rollout."""

    name: str
    value: int


# --- what is looked at ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Everybody:
    """All people read everything that is shown to them, settled or not, so many a page."""

    limit: int


@dataclass(frozen=True)
class Settle:
    """The mesh settles, and every walk is held against the ledger and the oracle: so many a page, and fifty."""

    limit: int


@dataclass(frozen=True)
class KeepCursor:
    """Somebody reads a page and keeps its cursor."""

    person: int
    limit: int


@dataclass(frozen=True)
class GoOn:
    """Somebody goes on from one of the cursors that were kept, to the end."""

    cursor: int
    limit: int


Step: TypeAlias = (
    Alone
    | Together
    | Race
    | Fate
    | Evict
    | ForgetEverything
    | ForgetPerson
    | LoseBroker
    | Replay
    | DaysPass
    | Set
    | Everybody
    | Settle
    | KeepCursor
    | GoOn
)


def changes(move: Move) -> frozenset[tuple[object, ...]]:
    """What a move writes, so that two that write the same are not made at the same time: nobody could tell which won."""
    match move:
        case Edit(_, post, _) | Delete(_, post):
            return frozenset({("post", post)})
        case Bind(person, tie, other) | Loose(person, tie, other):
            written = {(tie, person, other)}
            if tie is Tie.BLOCK:
                written |= {(Tie.FOLLOW, person, other), (Tie.FOLLOW, other, person)}
            return frozenset(written)
        case FollowMany(person, others):
            return frozenset((Tie.FOLLOW, person, other) for other in others)
        case Judge(person):
            return frozenset({("standing", person)})
        case _:
            return frozenset()


def without_conflicts(threads: Sequence[Sequence[Move]]) -> tuple[tuple[Move, ...], ...]:
    """The same threads without what two of them would write at the same time."""
    claimed: set[tuple[object, ...]] = set()
    kept: list[tuple[Move, ...]] = []
    for thread in threads:
        mine = [move for move in thread if not changes(move) & claimed]
        for move in mine:
            claimed |= changes(move)
        kept.append(tuple(mine))
    return tuple(thread for thread in kept if thread)


def told(steps: Sequence[Step]) -> Iterator[str]:
    """A programme, a line a step."""
    for number, step in enumerate(steps, 1):
        yield f"  {number:2}. {step!r}"
