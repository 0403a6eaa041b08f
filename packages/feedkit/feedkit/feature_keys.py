"""The layout of the Redis keys of the ranked view: its features, and the orders that it keeps.

All are plain strings, and all may be lost: features grow again from what people do, and an order that is gone is made
anew. So nothing here is leased. What is counted here may be off by what was told twice; what is shown as counts is
`keys.counts`.

| key | value | written by |
|---|---|---|
| `signals:v1:<post>` | POST_DTYPE: traits, when it was last added to, sums, decayed sums | `fanout`; traits by `timeline` |
| `author-signals:v1:<author>` | AUTHOR_DTYPE: when it was last added to, decayed sums | `fanout` |
| `affinity:v1:<viewer>` | of when the scores are (8 bytes), then AFFINITY_DTYPE for each author, ascending | `fanout` |
| `seen:v1:<viewer>` | post ids, 8 bytes each, oldest sight first; a hidden post's is negative | `fanout` |
| `ranked:v1:<viewer>` | the latest orders, newest first, each behind its id (8 bytes) and length (4 bytes) | `timeline` |

A *decayed sum* is one in which each addend fades by half in each half-life: at the time `t` it is worth what it was at
`at`, times `2 ** -((t - at) / half_life)`, and before `at` what it is then: clocks differ, and nothing grows by that. Times
are Unix seconds, as doubles. Sums are of SIGNALS, as floats of 4 bytes. All numbers are big-endian.

What is told of a user after the account was deleted, as an erasure itself does, must not make these keys again. So they end
as values that tell of nobody, to which nothing is added (ENDED_AFFINITY and so on); whoever reads needs not know of that.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from feedkit.key_scripts import load
from feedkit.redis import Command

SIGNALS = ("impressions", "likes", "reposts", "replies", "dwell_seconds", "negatives")
"""What is summed up, of posts and of authors."""

POST_DTYPE = [
    ("flags", ">u4"),
    ("topics", ">u4", (4,)),
    ("at", ">f8"),
    ("sums", ">f4", (len(SIGNALS),)),
    ("recent", ">f4", (len(SIGNALS),)),
]
"""The value of `signals`, as NumPy takes it. Topics are numbered as in `feed.post.v1.PostTraits`; 0: none."""
POST_BYTES = 76
AUTHOR_DTYPE = [("at", ">f8"), ("recent", ">f4", (len(SIGNALS),))]
"""The value of `author-signals`, as NumPy takes it."""
AUTHOR_BYTES = 32
AFFINITY_DTYPE = [("author", ">i8"), ("score", ">f4")]
"""An author in `affinity`, as NumPy takes it, behind the AFFINITY_AT_BYTES of the time."""
AFFINITY_AT_BYTES = 8

TRAITS_KNOWN, HAS_MEDIA, IS_REPLY = 1, 2, 4
"""Flags of a post. Without the first, nothing is known of the others, nor of topics."""

DWELL_SECONDS = 5.0
"""How long somebody has to look at a post to have dwelt on it."""
AFFINITY_OF_LIKE, AFFINITY_OF_REPLY, AFFINITY_OF_REPOST = 1.0, 3.0, 2.0
AFFINITY_OF_DWELL = 0.5
"""Of one impression on which the viewer dwelt."""
AFFINITY_OF_LESS, AFFINITY_OF_HIDE = -4.0, -6.0
"""What one engagement adds to the viewer's affinity to the author; taking one back subtracts it."""

POST_HALF_LIFE = 3_600.0
AUTHOR_HALF_LIFE = 7 * 86_400.0
AFFINITY_HALF_LIFE = 14 * 86_400.0
"""In seconds."""

ENDED_AFFINITY = struct.pack(">d", -1.0)
ENDED_SEEN = struct.pack(">q", 0)
ENDED_AUTHOR_SIGNALS = struct.pack(">d", -1.0) + bytes(4 * len(SIGNALS))
"""What the keys of a deleted user hold: they tell of nothing."""

_SUMS = struct.Struct(f">{len(SIGNALS)}f")
_TRAITS = struct.Struct(">I4I")
_AFFINITY = struct.Struct(">qf")
_ORDER = struct.Struct(">8sI")
ORDER_ID_BYTES = 8

_OBSERVE_POST = load("features", "observe_post")
_OBSERVE_AUTHOR = load("features", "observe_author")
_OBSERVE_AFFINITY = load("features", "observe_affinity")
_OBSERVE_SEEN = load("features", "observe_seen")
_SET_TRAITS = load("features", "set_traits")
_KEEP_ORDER = load("keep_order")


def post_signals(post_id: int) -> str:
    """What is known of a post beside its id."""
    return f"signals:v1:{post_id}"


def author_signals(author_id: int) -> str:
    """How people take what an author writes."""
    return f"author-signals:v1:{author_id}"


def affinity(viewer_id: int) -> str:
    """With whose posts a viewer did something."""
    return f"affinity:v1:{viewer_id}"


def seen(viewer_id: int) -> str:
    """Which posts a viewer has seen lately."""
    return f"seen:v1:{viewer_id}"


def orders(viewer_id: int) -> str:
    """The orders that were made for a viewer lately."""
    return f"ranked:v1:{viewer_id}"


class Sums(NamedTuple):
    """Sums, or what is to be added to them; the fields are SIGNALS."""

    impressions: float = 0.0
    likes: float = 0.0
    reposts: float = 0.0
    replies: float = 0.0
    dwell_seconds: float = 0.0
    negatives: float = 0.0


class Traits(NamedTuple):
    """What does not change of a post as long as nobody edits it."""

    has_media: bool
    is_reply: bool
    topics: Sequence[int]
    """At most 4."""


def observe_post(post_id: int, now: float, added: Sums, life_ms: int) -> Command:
    """Add to a post's sums; makes the key where there is none, without traits. No sum falls below 0."""
    return _OBSERVE_POST(post_signals(post_id), now, POST_HALF_LIFE, _SUMS.pack(*added), life_ms)


def observe_author(author_id: int, now: float, added: Sums, life_ms: int) -> Command:
    """Add to an author's decayed sums; 0 where the author is deleted. No sum falls below 0."""
    return _OBSERVE_AUTHOR(author_signals(author_id), now, AUTHOR_HALF_LIFE, _SUMS.pack(*added), life_ms)


def observe_affinity(viewer_id: int, now: float, added: Mapping[int, float], most: int, life_ms: int) -> Command:
    """Add to a viewer's affinity to authors, which may fall below 0; 0 where the viewer is deleted.

    Of more than `most` those nearest to 0 are dropped.
    """
    packed = b"".join(_AFFINITY.pack(author, score) for author, score in sorted(added.items()))
    return _OBSERVE_AFFINITY(affinity(viewer_id), now, AFFINITY_HALF_LIFE, packed, most, life_ms)


def observe_seen(viewer_id: int, post_ids: Iterable[int], most: int, life_ms: int) -> Command:
    """Note posts that a viewer has seen just now, hidden ones negative, each once; 0 where the viewer is deleted.

    Of more than `most` the oldest sights are dropped. A hidden post stays hidden when it is seen again.
    """
    return _OBSERVE_SEEN(seen(viewer_id), b"".join(struct.pack(">q", post_id) for post_id in post_ids), most, life_ms)


def end(user_id: int, life_ms: int) -> Sequence[Command]:
    """Forget what a deleted user did and was shown, and keep no more of it for so long: longer than events come late."""
    return (
        ("SET", affinity(user_id), ENDED_AFFINITY, "PX", life_ms),
        ("SET", seen(user_id), ENDED_SEEN, "PX", life_ms),
        ("SET", author_signals(user_id), ENDED_AUTHOR_SIGNALS, "PX", life_ms),
        ("UNLINK", orders(user_id)),
    )


def set_traits(post_id: int, traits: Traits, life_ms: int) -> Command:
    """Note a post's traits, and leave its sums as they are."""
    flags = TRAITS_KNOWN | (HAS_MEDIA if traits.has_media else 0) | (IS_REPLY if traits.is_reply else 0)
    topics = [*traits.topics, 0, 0, 0, 0][:4]
    return _SET_TRAITS(post_signals(post_id), _TRAITS.pack(flags, *topics), life_ms)


def keep_order(viewer_id: int, order_id: bytes, order: bytes, most: int, life_ms: int) -> Command:
    """Keep an order, and the viewer's latest ones before it, `most` in all. `order_id` has ORDER_ID_BYTES."""
    return _KEEP_ORDER(orders(viewer_id), _ORDER.pack(order_id, len(order)) + order, most, life_ms)


def find_order(raw: bytes | None, order_id: bytes) -> bytes | None:
    """The order of an id in a value of `ranked`; None where it is kept no longer, or never was."""
    place = 0
    while raw is not None and place + _ORDER.size <= len(raw):
        found, length = _ORDER.unpack_from(raw, place)
        place += _ORDER.size
        if found == order_id:
            return raw[place : place + length] if place + length <= len(raw) else None
        place += length
    return None
