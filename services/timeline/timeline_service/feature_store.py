"""Features in Redis, decoded by the column. The layout of the keys is told in `feedkit.feature_keys`."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from feedkit import feature_keys, key_scripts
from feedkit.cursor import EPOCH_MS, TIME_SHIFT
from feedkit.redis import Redis
from feedrank.candidates import Candidates
from feedrank.features import faded
from numpy.typing import DTypeLike, NDArray

from timeline_service.author_memory import AuthorMemory
from timeline_service.candidates import Shortlist
from timeline_service.features import Known, Traits
from timeline_service.home_store import answers
from timeline_service.origins import Origin
from timeline_service.viewer import Viewer

_POST = np.dtype(feature_keys.POST_DTYPE)
_AUTHOR = np.dtype(feature_keys.AUTHOR_DTYPE)
_AFFINITY = np.dtype(feature_keys.AFFINITY_DTYPE)


class FeatureStore:
    """See `features.FeatureStore`."""

    def __init__(
        self, redis: Redis, authors: AuthorMemory, *, signals_ms: int, clock: Callable[[], float] = time.time
    ) -> None:
        """Traits live `signals_ms` where nothing else is known of a post; `clock` gives Unix seconds."""
        self._redis = redis
        self._authors = authors
        self._signals_ms = signals_ms
        self._clock = clock

    async def read(self, viewer: Viewer, entries: Shortlist) -> Known:
        """See `features.FeatureStore`."""
        post_ids, author_ids = entries.post_ids, entries.author_ids
        authors, author_of = np.unique(author_ids, return_inverse=True)
        signals = self._authors.known(authors.tolist())
        lacking = [author for author, value in signals.items() if value is None]
        affinity, seen, of_posts, *of_authors = await answers(
            self._redis,
            key_scripts.get(feature_keys.affinity(viewer.id)),
            key_scripts.get(feature_keys.seen(viewer.id)),
            key_scripts.get_many(map(feature_keys.post_signals, post_ids.tolist())),
            *([key_scripts.get_many(map(feature_keys.author_signals, lacking))] if lacking else []),
        )
        if lacking:
            signals |= self._authors.remember(lacking, of_authors[0])
        posts = _rows(of_posts, _POST)
        by_author = _rows([*signals.values()], _AUTHOR)[author_of]
        flags = posts["flags"]
        sights = _sights(seen)
        candidates = Candidates(
            post_ids=post_ids,
            author_ids=author_ids,
            created_at_ms=(post_ids >> TIME_SHIFT) + EPOCH_MS,
            has_media=(flags & feature_keys.HAS_MEDIA) != 0,
            is_reply=(flags & feature_keys.IS_REPLY) != 0,
            topics=posts["topics"].astype(np.uint32),
            sums=posts["sums"].astype(np.float32),
            recent=posts["recent"].astype(np.float32),
            recent_at=posts["at"].astype(np.float64),
            author_recent=by_author["recent"].astype(np.float32),
            author_recent_at=by_author["at"].astype(np.float64),
            affinity=_affinity(affinity, authors, self._clock())[author_of],
            is_own=entries.origins == Origin.OWN,
            is_favourite=_among(np.array(viewer.favourites, np.int64), author_ids),
            is_pulled=entries.are_pulled,
            was_seen=_among(np.abs(sights), post_ids),
            was_hidden=_among(-sights[sights < 0], post_ids),
        )
        return Known(candidates, np.flatnonzero((flags & feature_keys.TRAITS_KNOWN) == 0))

    async def keep_traits(self, traits: Mapping[int, Traits]) -> None:
        """See `features.FeatureStore`."""
        commands = [
            feature_keys.set_traits(post_id, feature_keys.Traits(*known), self._signals_ms)
            for post_id, known in traits.items()
        ]
        await answers(self._redis, *commands)


def _rows(values: Sequence[bytes | None], dtype: "np.dtype[np.void]") -> NDArray[np.void]:
    """A row for each value; zeros for one that is absent, or was not written by us."""
    size = dtype.itemsize
    nothing = bytes(size)
    packed = b"".join([value if value is not None and len(value) == size else nothing for value in values])
    return np.frombuffer(packed, dtype)


def _affinity(value: bytes | None, authors: NDArray[np.int64], now: float) -> NDArray[np.float32]:
    """The affinity to each of some authors, as it is now."""
    known = _table(value, feature_keys.AFFINITY_AT_BYTES, _AFFINITY)
    if value is None or not len(known):
        return np.zeros(len(authors), np.float32)
    (at,) = np.frombuffer(value, ">f8", 1)
    known_authors, scores = known["author"].astype(np.int64), known["score"].astype(np.float32)
    places = np.minimum(np.searchsorted(known_authors, authors), len(known) - 1)
    found = np.where(known_authors[places] == authors, scores[places], np.float32(0))
    return faded(found, at, now, feature_keys.AFFINITY_HALF_LIFE).astype(np.float32)


def _sights(value: bytes | None) -> NDArray[np.int64]:
    """The posts that were seen lately; hidden ones are negative."""
    return _table(value, 0, ">i8").astype(np.int64)


def _among(some: NDArray[np.int64], ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of the ids (n,) are some of these; a fifth of the time that `numpy.isin` takes for a thousand."""
    if not len(some):
        return np.zeros(len(ids), np.bool_)
    ascending = np.sort(some)
    return ascending.take(ascending.searchsorted(ids), mode="clip") == ids


def _table(value: bytes | None, head: int, dtype: DTypeLike) -> NDArray[Any]:
    """What follows a head; nothing where a value is absent, or was not written by us."""
    whole = np.dtype(dtype)
    if value is None or len(value) < head or (len(value) - head) % whole.itemsize:
        return np.empty(0, whole)
    return np.frombuffer(value, whole, offset=head)
