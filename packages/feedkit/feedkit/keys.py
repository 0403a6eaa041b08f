"""The layout of every Redis key: its name, what is in it, and how that is read and written.

Two kinds of values, both plain strings, because a packed string takes half the memory of a sorted set and is read with
one copy (`tests/bench` has the figures):

**Cached values**, `ctx`, `hidden`, `post`, `counts`, `user`, `own` and `recents`, are copies of the truth. They begin with
a tag:

    "L" + 16 bytes              a lease: somebody is about to fill the key, and only the holder of the token may
    "V" + payload               the value

| key | payload | filled by | deleted or added to by |
|---|---|---|---|
| `ctx:v1:<viewer>` | followees (number of 4 bytes, ids), view (1 byte), favourites | `timeline` | `graph`, `fanout` |
| `hidden:v1:<viewer>` | more (1 byte), number of blocked (4 bytes), they, the muted | `hydrate` | `graph`, `fanout` |
| `post:v1:<post>` | `feed.post.v1.Post`; empty: there is none, or it is deleted | `hydrate` | `post`, `fanout` |
| `user:v1:<user>` | `feed.graph.v1.User`: id, name and standing | `hydrate` | `graph`, `fanout` |
| `own:v1:<author>` | horizon, post ids, newest first | `timeline` | `post`, `fanout` |
| `recents:v1:<author>` | the same | `timeline` | `fanout` |
| `counts:v1:<post>` | likes, reposts, replies | `hydrate` | `fanout` |

**Home timelines**, `tl:v1:<viewer>`, written by `fanout` alone:

    entries, oldest first, 16 bytes each (post id, author id) · horizon · cut · epoch

The trailer of 24 bytes is last, so that one GETRANGE from the end reads it together with the newest entries.

- *Horizon*: every post above it that has been pushed, or belongs into the list, is in it. Readers ignore what is at or
  below. 0: the list goes down to the beginning.
- *Cut*: the highest post id that was ever trimmed.
- *Epoch*: 8 random bytes, new at creation and at every rewrite (rebuild, reconcile, what an author wrote before), unchanged
  by pushes of new posts.

The keys of the ranked view, which may be lost without harm, are told in `feature_keys`.

Numbers are big-endian, 8 bytes unless told otherwise; ids of users are ascending. **Any key may vanish at any time; an
absent one is unknown, never empty.** The steps that write are in `key_scripts`.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

ENTRY_BYTES = 16
TRAILER_BYTES = 24
EPOCH_BYTES = 8
TOKEN_BYTES = 16

RECENTS_CHANGED = "recents-changed:v1"
"""The channel on which `fanout` announces authors whose recents it has added to: a message is an author id, 8 bytes."""
PULLED_UNSEEN = "pulled-unseen:v1"
"""A key that exists while some `timeline` may not know of the latest post that was not pushed; its life tells how long."""
CELEBRITY_LINE = "celebrity-line:v1"
"""The follower count from which authors are pulled, where it is not the setting: a JSON object, written by the `fanout`
that leads. Absent: it is the setting."""
FANOUT_LEADER = "fanout-leader:v1"
"""Which `fanout` moves the celebrity line and lets authors leave the index: its name, for as long as the key lives."""


class Undecodable(ValueError):
    """A value that was not written by us: its key is as good as absent."""


_VALUE = b"V"
_LEASE = b"L"
_ID = struct.Struct(">q")
_COUNT = struct.Struct(">I")
_TRAILER = struct.Struct(">qq8s")
_HIDDEN = struct.Struct(">?I")
_CHOICES = struct.Struct(">?I")
_COUNTS = struct.Struct(">qqq")


def context(viewer_id: int) -> str:
    """Whom a viewer follows and does not mute."""
    return f"ctx:v1:{viewer_id}"


def hidden(viewer_id: int) -> str:
    """Whose posts are withheld from a viewer."""
    return f"hidden:v1:{viewer_id}"


def post(post_id: int) -> str:
    """A post's body."""
    return f"post:v1:{post_id}"


def user(user_id: int) -> str:
    """A user's name and standing."""
    return f"user:v1:{user_id}"


def counts(post_id: int) -> str:
    """What others did with a post."""
    return f"counts:v1:{post_id}"


def own(author_id: int) -> str:
    """An author's newest posts, for the author's own home timeline."""
    return f"own:v1:{author_id}"


def recents(author_id: int) -> str:
    """A pulled author's newest posts, for everybody who follows them."""
    return f"recents:v1:{author_id}"


def timeline(viewer_id: int) -> str:
    """A viewer's home timeline."""
    return f"tl:v1:{viewer_id}"


# --- cached values -----------------------------------------------------------------------------------------------------


def lease(token: bytes) -> bytes:
    """What a key holds while the owner of the token is filling it."""
    return _LEASE + token


def value(payload: bytes) -> bytes:
    """What a key holds when it is filled."""
    return _VALUE + payload


def payload(raw: bytes | None) -> bytes | None:
    """The payload of what was read; None where nothing is known: the key is absent, or leased."""
    return raw[1:] if raw is not None and raw.startswith(_VALUE) else None


class Context(NamedTuple):
    """What a timeline has to know of its viewer."""

    followee_ids: Sequence[int]
    """Whom the viewer follows and does not mute, ascending."""
    favourite_ids: Sequence[int] = ()
    """Those of them who are favourites, ascending."""
    prefers_ranked: bool = False
    """Whether the viewer has chosen to be shown the ranked view."""


def encode_context(context: Context) -> bytes:
    """The payload of `ctx`."""
    followees, favourites = context.followee_ids, context.favourite_ids
    return (
        _COUNT.pack(len(followees))
        + struct.pack(f">{len(followees)}q", *followees)
        + _CHOICES.pack(context.prefers_ranked, len(favourites))
        + struct.pack(f">{len(favourites)}q", *favourites)
    )


def decode_context(packed: bytes) -> Context:
    """What a payload of `ctx` says. Raises Undecodable. One that ends behind the followees was written before there were
    choices, and is of a viewer who has made none."""
    try:
        (count,) = _COUNT.unpack_from(packed)
        followees = struct.unpack_from(f">{count}q", packed, _COUNT.size)
        end = _COUNT.size + count * _ID.size
        if end == len(packed):
            return Context(followees)
        prefers_ranked, count = _CHOICES.unpack_from(packed, end)
        return Context(followees, struct.unpack_from(f">{count}q", packed, end + _CHOICES.size), prefers_ranked)
    except struct.error as error:
        raise Undecodable(str(error)) from error


class Counts(NamedTuple):
    """What others did with a post."""

    likes: int
    reposts: int
    replies: int


def encode_counts(counts: Counts) -> bytes:
    """The payload of `counts`."""
    return _COUNTS.pack(*counts)


def decode_counts(packed: bytes) -> Counts:
    """What a payload of `counts` says. Raises Undecodable."""
    try:
        return Counts(*_COUNTS.unpack(packed))
    except struct.error as error:
        raise Undecodable(str(error)) from error


class AscendingIds(Collection[int]):
    """Ids as they are packed, ascending: looked up in place, because of thousands a read looks for a few."""

    __slots__ = ("_ids",)

    def __init__(self, packed: bytes) -> None:
        self._ids = array("q", packed)
        if sys.byteorder == "little":
            self._ids.byteswap()

    def __contains__(self, some_id: object) -> bool:
        if not isinstance(some_id, int):
            return False
        place = bisect_left(self._ids, some_id)
        return place < len(self._ids) and self._ids[place] == some_id

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


class HiddenAuthors(NamedTuple):
    """Whose posts are withheld from a viewer."""

    blocked: Collection[int]
    """Whom the viewer blocks, and who blocks the viewer: nowhere shown."""
    muted: Collection[int]
    """Whom the viewer mutes: not shown in feeds."""
    more_block: bool
    """Whether there are more who block than these; then single authors have to be asked for."""


def encode_hidden(hides: HiddenAuthors) -> bytes:
    """The payload of `hidden`."""
    ids = [*sorted(hides.blocked), *sorted(hides.muted)]
    return _HIDDEN.pack(hides.more_block, len(hides.blocked)) + struct.pack(f">{len(ids)}q", *ids)


def decode_hidden(packed: bytes) -> HiddenAuthors:
    """What a payload of `hidden` says. Raises Undecodable."""
    try:
        more_block, blocked = _HIDDEN.unpack_from(packed)
    except struct.error as error:
        raise Undecodable(str(error)) from error
    ids = packed[_HIDDEN.size :]
    end = blocked * _ID.size
    if end > len(ids) or len(ids) % _ID.size:
        raise Undecodable(f"{blocked} blocked ones in {len(ids)} bytes")
    if not ids:
        return HiddenAuthors((), (), more_block)
    return HiddenAuthors(AscendingIds(ids[:end]), AscendingIds(ids[end:]), more_block)


class PostList(NamedTuple):
    """What `own` and `recents` hold: the newest posts of one author."""

    post_ids: tuple[int, ...]
    """Newest first, all above the horizon."""
    horizon: int
    """Every post of the author above it is in the list; 0: all posts are."""


def encode_post_list(post_ids: Sequence[int], horizon: int) -> bytes:
    """The payload of `own` and `recents`. `post_ids` are newest first and above the horizon."""
    return struct.pack(f">{len(post_ids) + 1}q", horizon, *post_ids)


def decode_post_list(packed: bytes) -> PostList:
    """The list in a payload of `own` or `recents`. Raises Undecodable."""
    if not packed or len(packed) % _ID.size:
        raise Undecodable(f"{len(packed)} bytes are no list of posts")
    horizon, *post_ids = struct.unpack(f">{len(packed) // _ID.size}q", packed)
    return PostList(tuple(post_ids), horizon)


def encode_id(some_id: int) -> bytes:
    """An id alone, as scripts and announcements take it."""
    return _ID.pack(some_id)


def decode_id(packed: bytes) -> int:
    """The id in an announcement."""
    (some_id,) = _ID.unpack(packed)
    return some_id


# --- home timelines ----------------------------------------------------------------------------------------------------


class Trailer(NamedTuple):
    """What a home timeline says of itself."""

    horizon: int
    cut: int
    epoch: bytes


def encode_entries(entries: Iterable[tuple[int, int]]) -> bytes:
    """Entries of a home timeline, post id and author id, in the order given; scripts want the oldest first."""
    numbers = [number for entry in entries for number in entry]
    return struct.pack(f">{len(numbers)}q", *numbers)


def encode_trailer(trailer: Trailer) -> bytes:
    """The trailer of a home timeline; alone it is a timeline without entries."""
    return _TRAILER.pack(*trailer)


def newest(entries: int) -> int:
    """The start for a GETRANGE to -1 that reads so many of the newest entries of a home timeline, and its trailer."""
    return -(entries * ENTRY_BYTES + TRAILER_BYTES)


class Tail(NamedTuple):
    """The newest part of a home timeline, or all of it, as it was read; entries are only unpacked where needed."""

    packed: bytes
    """Entries, oldest first."""
    trailer: Trailer

    @property
    def length(self) -> int:
        """How many entries there are."""
        return len(self.packed) // ENTRY_BYTES

    def columns(self, start: int, stop: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Post ids and author ids of the entries from place `start` up to but without `stop`; 0 is the oldest."""
        numbers = struct.unpack_from(f">{2 * (stop - start)}q", self.packed, start * ENTRY_BYTES)
        return numbers[::2], numbers[1::2]

    def place(self, post_id: int) -> int:
        """How many entries are below a post id."""
        low, high = 0, self.length
        while low < high:
            middle = (low + high) // 2
            if _ID.unpack_from(self.packed, middle * ENTRY_BYTES)[0] < post_id:
                low = middle + 1
            else:
                high = middle
        return low


def decode_timeline(raw: bytes) -> Tail | None:
    """What was read of a home timeline by GETRANGE; None where there is none, or something else."""
    if len(raw) < TRAILER_BYTES or (len(raw) - TRAILER_BYTES) % ENTRY_BYTES:
        return None
    entries, trailer = raw[:-TRAILER_BYTES], raw[-TRAILER_BYTES:]
    return Tail(entries, Trailer(*_TRAILER.unpack(trailer)))
