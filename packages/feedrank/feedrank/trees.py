"""Gradient-boosted trees, and how they are asked about hundreds of posts at once.

Walking down a tree takes a guess of the processor at each split, and it guesses wrong often. So nothing is walked here.
A split, wherever it stands in its tree, rules out the leaves on one of its sides. Which leaves all splits on one feature
rule out depends on nothing but between which of their thresholds the feature lies: a table for each feature has a row for
each such interval, and in it the leaves that are left of every tree, as bits. A post picks one row of each table; what
is left by all of them is one leaf of each tree. (The idea is QuickScorer's: Lucchese et al., SIGIR 2015.)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from feedrank import effects
from feedrank.features import FEATURES
from feedrank.logistic import probabilities
from feedrank.signals import PREDICTED

MOST_LEAVES = 64
"""Of one tree: they are the bits of one integer."""
BLOCK_BYTES = 1 << 16
"""How large an array is at most while leaves are looked up. The allocator may ask the system for larger ones each time, and
get them page by page, which takes as long as all the rest."""


class Split(NamedTuple):
    """A question of a tree: where it goes on if the feature is at most the threshold, and where otherwise."""

    feature: str
    threshold: float
    low: "Tree"
    high: "Tree"


Tree: TypeAlias = float | Split
"""A leaf, which is the log odds that it adds, or a split."""

Forest: TypeAlias = Mapping[str, Sequence[Tree]]
"""For each signal of PREDICTED the trees whose leaves add up to its log odds."""


class Trees:
    """The `Model` of a forest."""

    def __init__(
        self,
        forest: Forest,
        *,
        neutral: NDArray[np.float32],
        calibration: Sequence[tuple[float, float]],
        version: str,
        trained_at_ms: int,
    ) -> None:
        """`neutral`: (F,), for `effects`. `calibration`: for each signal the slope and the intercept of its log odds."""
        self.version = version
        self.trained_at_ms = trained_at_ms
        self._neutral = neutral
        self._slopes, self._intercepts = np.array(calibration, np.float32).T
        trees = [tree for signal in PREDICTED for tree in forest[signal]]
        ends = np.cumsum([len(forest[signal]) for signal in PREDICTED])
        self._signals = [slice(end - len(forest[signal]), end) for signal, end in zip(PREDICTED, ends, strict=True)]
        values = [list(leaves(tree)) for tree in trees]
        self._leaves = np.array([leaf for of_tree in values for leaf in of_tree], np.float32)
        self._first_leaves = np.cumsum([0, *map(len, values)], dtype=np.int32)[: len(trees)]
        self._all_leaves, self._tables = _tables(trees, [len(of_tree) for of_tree in values])

    def predict(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 5): the probability of each signal of PREDICTED, for a matrix of features."""
        left_of_all, different = self._looked_up(matrix)
        log_odds = np.empty((len(matrix), len(PREDICTED)), np.float32)
        at_once = max(BLOCK_BYTES // (self._leaves.itemsize * max(len(left_of_all), 1)), 1)
        for begin in range(0, len(matrix), at_once):
            rows = slice(begin, min(begin + at_once, len(matrix)))
            values = self._leaves.take(self._reached(left_of_all, different, rows))
            for place, trees in enumerate(self._signals):
                log_odds[rows, place] = values[:, trees].sum(axis=1)
        return probabilities(log_odds * self._slopes + self._intercepts)

    def effects(self, rows: NDArray[np.float32], weights: NDArray[np.floating]) -> NDArray[np.float32]:
        """(k, F): by how much each feature moved each score; see `effects.by_substitution`."""
        return effects.by_substitution(self.predict, self._neutral, rows, weights)

    def _looked_up(self, matrix: NDArray[np.float32]) -> "tuple[NDArray[np.unsignedinteger], list[_Lookup]]":
        """The leaves (trees,) that are left by features which are the same in all rows, and the row to pick of each other
        feature's table."""
        # As doubles, so that a feature compares with thresholds as it did in training.
        columns = matrix.T.astype(np.float64, order="C")
        left_of_all, different = self._all_leaves, list[_Lookup]()
        for table in self._tables:
            above = cast("NDArray[np.intp]", table.thresholds.searchsorted(columns[table.feature]))
            if len(above) and (above == above[0]).all():
                left_of_all = left_of_all & table.left[above[0]]
            else:
                different.append(_Lookup(table.left, above))
        return left_of_all, different

    def _reached(
        self, left_of_all: NDArray[np.unsignedinteger], different: "Sequence[_Lookup]", rows: slice
    ) -> NDArray[np.int32]:
        """(rows, trees): the place among all leaves of the one that each row reaches in each tree."""
        left = np.repeat(left_of_all[None, :], rows.stop - rows.start, axis=0)
        for table, above in different:
            np.bitwise_and(left, table.take(above[rows], axis=0), out=left)
        # One bit is left. Its number is the exponent of the float that is equal to it.
        return (left.astype(np.float32).view(np.int32) >> 23) - 127 + self._first_leaves


class _Lookup(NamedTuple):
    """Which rows of a table posts pick."""

    left: NDArray[np.unsignedinteger]
    """(k + 1, trees)"""
    above: NDArray[np.intp]
    """(n,)"""


class _Table(NamedTuple):
    """What all splits on one feature leave over."""

    feature: int
    thresholds: NDArray[np.float64]
    """(k,), ascending."""
    left: NDArray[np.unsignedinteger]
    """(k + 1, trees): the leaves left of each tree for a feature above so many thresholds; the lowest bit is the first."""


def _tables(trees: Sequence[Tree], many: Sequence[int]) -> tuple[NDArray[np.unsignedinteger], list[_Table]]:
    """All leaves of each tree, of which there are so many, and a table for each feature on which a tree splits."""
    bits = _unsigned(max(many, default=0))
    everything = np.array([(1 << leaves) - 1 for leaves in many], bits)
    splits = [(tree, *split) for tree, root in enumerate(trees) for split in _splits(root)]
    tables: list[_Table] = []
    for place, feature in enumerate(FEATURES):
        of_feature = [(tree, split, low, high) for tree, split, low, high in splits if split.feature == feature]
        if not of_feature:
            continue
        thresholds = np.unique([split.threshold for _, split, _, _ in of_feature])
        left = np.repeat(everything[None, :], len(thresholds) + 1, axis=0)
        for tree, split, low, high in of_feature:
            above = int(thresholds.searchsorted(split.threshold)) + 1
            left[:above, tree] &= ~bits(high)
            left[above:, tree] &= ~bits(low)
        tables.append(_Table(place, thresholds, left))
    return everything, tables


def _unsigned(bits: int) -> type[np.unsignedinteger]:
    """The smallest integer of so many bits. Raises ValueError for more than MOST_LEAVES."""
    for dtype in (np.uint8, np.uint16, np.uint32, np.uint64):
        if bits <= np.iinfo(dtype).bits:
            return dtype
    raise ValueError(f"a tree has {bits} leaves, more than {MOST_LEAVES}")


def leaves(tree: Tree) -> Iterator[float]:
    """Its leaves, from low to high."""
    if isinstance(tree, Split):
        yield from leaves(tree.low)
        yield from leaves(tree.high)
    else:
        yield tree


def _splits(tree: Tree, first: int = 0) -> Iterator[tuple[Split, int, int]]:
    """Each split with the leaves on its low and on its high side, as bits; the tree's own leaves begin at bit `first`."""
    if isinstance(tree, Split):
        low, high = (sum(1 for _ in leaves(side)) for side in (tree.low, tree.high))
        yield tree, ((1 << low) - 1) << first, ((1 << high) - 1) << first + low
        yield from _splits(tree.low, first)
        yield from _splits(tree.high, first + low)


_ZERO = float(np.float32(1e-35))
"""What is this near to 0 is 0 for LightGBM, and a split beside 0 has it as its threshold."""


class Booster(Protocol):
    """As much of `lightgbm.Booster` as is needed here."""

    def dump_model(self) -> dict[str, Any]:
        """The model as nested dictionaries."""
        ...


def from_lightgbm(boosters: Sequence[Booster]) -> Forest:
    """The trees of a binary booster for each signal of PREDICTED, each trained on matrices of FEATURES.

    Raises ValueError for boosters of which log odds are not a sum of trees of numerical splits.
    """
    return {signal: _of_booster(booster.dump_model()) for signal, booster in zip(PREDICTED, boosters, strict=True)}


def _of_booster(dump: Mapping[str, Any]) -> list[Tree]:
    if dump.get("objective") != "binary sigmoid:1" or dump.get("average_output"):
        raise ValueError(f"a booster is of objective {dump.get('objective')!r}, not of 'binary sigmoid:1'")
    if dump["max_feature_idx"] + 1 != len(FEATURES):
        raise ValueError(f"a booster was trained on {dump['max_feature_idx'] + 1} features, not on {len(FEATURES)}")
    return [_of_node(tree["tree_structure"]) for tree in dump["tree_info"]]


def _of_node(node: Mapping[str, Any]) -> Tree:
    if "split_feature" in node:
        if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
            raise ValueError(f"a booster splits by {node['decision_type']!r} with missing {node['missing_type']!r}")
        low, high = _of_node(node["left_child"]), _of_node(node["right_child"])
        return Split(FEATURES[node["split_feature"]], _threshold(node["threshold"]), low, high)
    if "leaf_coeff" in node:
        raise ValueError("a booster has linear models in its leaves")
    return float(node["leaf_value"])


def _threshold(threshold: float) -> float:
    """One that decides for every value as LightGBM does, which takes a value so near to 0 for 0 before it compares it."""
    return float(np.nextafter(-_ZERO, -1.0)) if -_ZERO <= threshold < 0.0 else threshold
