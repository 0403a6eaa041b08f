"""Decayed sums as they were at any time of the past, for many groups and many times at once.

The sums are those of `feedkit.feature_keys`, which a mesh keeps only as they are now; the one-at-a-time rule is
`sum = max(sum * fade + addend, floor)`. Such steps can be put together in pairs, pairs of pairs and so on, so that the
sums after each of n addends take log(n) passes over columns, with no loop over addends.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.integer[Any]]
Floats: TypeAlias = NDArray[np.float64]


class Histories:
    """What was added to the sums of some groups, and when."""

    def __init__(
        self,
        groups: Ints,
        at_ms: Ints,
        addends: NDArray[np.floating[Any]],
        *,
        half_life: float = math.inf,
        floor: float = 0.0,
    ) -> None:
        """`groups`: (n,), any numbers. `at_ms`: (n,), milliseconds. `addends`: (n, k). `half_life`: seconds. `floor`: below
        which no sum falls. What is added to one group in the same millisecond is added in the order given."""
        self._half_life_ms = half_life * 1_000.0
        order = np.lexsort((at_ms, groups))
        self._at_ms = at_ms[order].astype(np.int64)
        self._known, self._groups = np.unique(groups[order], return_inverse=True)
        self._sums = self._accumulated(addends[order].astype(np.float64), floor)

    def before(self, groups: Ints, at_ms: Ints) -> tuple[Floats, Floats]:
        """What the sums of groups were just before times, (m, k), and since when, (m,) in milliseconds.

        They have not faded since then. Of a group to which nothing had been added both are 0.
        """
        if not len(self._known):
            return np.zeros((len(groups), self._sums.shape[1])), np.zeros(len(groups))
        group = np.minimum(np.searchsorted(self._known, groups), len(self._known) - 1)
        place = self._place(group, at_ms)
        found = (place >= 0) & (self._groups[place] == group) & (self._known[group] == groups)
        return np.where(found[:, None], self._sums[place], 0.0), np.where(found, self._at_ms[place], 0.0)

    def faded_before(self, groups: Ints, at_ms: Ints) -> Floats:
        """(m, k): the sums just before times, as they had faded by then."""
        sums, since = self.before(groups, at_ms)
        return sums * np.exp2((since - at_ms) / self._half_life_ms)[:, None]

    def _place(self, groups: Ints, at_ms: Ints) -> Ints:
        """Where the last addend before a time stands; where the group has none, some other group's, or -1."""
        begin, end = int(self._at_ms.min()), int(self._at_ms.max()) + 1
        span = end - begin + 1
        keys = self._groups * span + (self._at_ms - begin)
        return np.searchsorted(keys, groups * span + (np.clip(at_ms, begin, end) - begin)) - 1

    def _accumulated(self, sums: Floats, floor: float) -> Floats:
        """The sums after each addend. Each step is s -> max(fade * s + b, c): b is in `sums`, c in `floors`."""
        starts = np.flatnonzero(np.diff(self._groups, prepend=-1))
        nth = np.arange(len(self._groups)) - np.repeat(starts, np.diff(starts, append=len(self._groups)))
        floored = bool(np.any(sums < 0.0)) and floor > -math.inf
        floors = np.full_like(sums if floored else sums[:0], floor)
        distance = 1
        while len(rows := np.flatnonzero(nth >= distance)):
            earlier = rows - distance
            fade = np.exp2((self._at_ms[earlier] - self._at_ms[rows]) / self._half_life_ms)[:, None]
            if floored:
                floors[rows] = np.maximum(fade * floors[earlier] + sums[rows], floors[rows])
            sums[rows] += fade * sums[earlier]
            distance *= 2
        return np.maximum(sums, floors) if floored else sums
