"""Trees answer as if each had been walked down, and as LightGBM does."""

from typing import Any

import numpy as np
import pytest
from feedrank.features import FEATURES, NEUTRAL
from feedrank.model_file import UNCALIBRATED
from feedrank.signals import PREDICTED
from feedrank.trees import MOST_LEAVES, Forest, Split, Tree, Trees, from_lightgbm, leaves
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

THRESHOLDS = [-1.0, 0.0, 1.0000000180025095e-35, 0.1, 0.5, 3.3]
"""Some are floats of 4 bytes, some lie between two."""
VALUES = np.array([*THRESHOLDS, *(np.nextafter(np.float32(t), np.float32(s)) for t in THRESHOLDS for s in (-9, 9))])


def model(forest: Forest, calibration: Any = UNCALIBRATED) -> Trees:
    return Trees(forest, neutral=NEUTRAL, calibration=calibration, version="any", trained_at_ms=1)


def log_odds(probabilities: NDArray[np.floating]) -> NDArray[np.float64]:
    wide = probabilities.astype(np.float64)
    return np.log(wide / (1 - wide))


def walked(tree: Tree, row: NDArray[np.floating]) -> float:
    while isinstance(tree, Split):
        tree = tree.low if float(row[FEATURES.index(tree.feature)]) <= tree.threshold else tree.high
    return tree


def grown(draw: st.DrawFn, most: int) -> Tree:
    """A tree of some shape with at most so many leaves."""
    if most == 1 or draw(st.integers(0, 5)) == 0:
        return draw(st.integers(-8, 8)) / 64
    low = draw(st.integers(1, most - 1))
    feature, threshold = draw(st.sampled_from(FEATURES[:3])), draw(st.sampled_from(THRESHOLDS))
    return Split(feature, threshold, grown(draw, low), grown(draw, most - low))


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    """Signals with no, one or a few trees."""
    most = draw(st.sampled_from([1, 8, 9, 20]))
    return {signal: [grown(draw, most) for _ in range(draw(st.integers(0, 2)))] for signal in PREDICTED}


def chain(many: int) -> Tree:
    """A tree that asks the same feature again and again: the leaf for `i + 0.5` is the i-th."""
    tree: Tree = (many - 1) / 64
    for number in reversed(range(many - 1)):
        tree = Split("age", number + 0.75, number / 64, tree)
    return tree


@settings(deadline=None)
@given(forests(), st.integers(0, 2**32 - 1))
def test_every_post_reaches_the_leaves_that_a_walk_down_reaches(forest: Forest, seed: int) -> None:
    rows = np.random.default_rng(seed).choice(VALUES, (20, len(FEATURES))).astype(np.float32)
    expected = [[sum(walked(tree, row) for tree in forest[signal]) for signal in PREDICTED] for row in rows]
    np.testing.assert_allclose(log_odds(model(forest).predict(rows)), expected, atol=1e-5)


@pytest.mark.parametrize("many", [1, 2, 8, 9, 16, 17, 32, 33, MOST_LEAVES])
def test_trees_may_have_any_number_of_leaves_up_to_the_most(many: int) -> None:
    rows = np.tile(NEUTRAL, (many, 1))
    rows[:, FEATURES.index("age")] = np.arange(many) + 0.5
    forest: Forest = {signal: [chain(many), chain(1)] for signal in PREDICTED}
    np.testing.assert_allclose(log_odds(model(forest).predict(rows))[:, 0], np.arange(many) / 64, atol=1e-5)


def test_a_tree_with_more_leaves_is_refused() -> None:
    with pytest.raises(ValueError, match="65 leaves"):
        model({signal: [chain(MOST_LEAVES + 1)] for signal in PREDICTED})


def test_calibration_stretches_and_shifts_log_odds() -> None:
    forest: Forest = {signal: [0.5] for signal in PREDICTED}
    calibrated = model(forest, [(2.0, -1.0), (1.0, 0.0), (0.0, 0.25), (-1.0, 0.0), (1.0, 3.0)])
    np.testing.assert_allclose(log_odds(calibrated.predict(NEUTRAL[None, :]))[0], [0, 0.5, 0.25, -0.5, 3.5], atol=1e-5)


def test_predictions_are_probabilities_however_sure_trees_are() -> None:
    forest: Forest = {signal: [leaf] for signal, leaf in zip(PREDICTED, (-1e9, -200.0, 0.0, 200.0, 1e9), strict=True)}
    np.testing.assert_allclose(model(forest).predict(NEUTRAL[None, :])[0], [0, 0, 0.5, 1, 1], atol=1e-30)


def test_no_posts_have_no_predictions() -> None:
    nothing = np.empty((0, len(FEATURES)), np.float32)
    assert model({signal: [chain(3)] for signal in PREDICTED}).predict(nothing).shape == (0, len(PREDICTED))


def test_effects_are_what_predictions_lose_where_a_feature_is_not_known() -> None:
    """Every forest is asked in the same way as the baseline, so that effects mean the same."""
    liked = Split("affinity", 1.0, -1.0, 1.0)
    trees = model({signal: [liked] if signal == "like" else [-4.0] for signal in PREDICTED})
    row = NEUTRAL.copy()
    row[FEATURES.index("affinity")] = 2.0
    effects = trees.effects(row[None, :], np.array([10.0, 0, 0, 0, 0]))[0]
    gained = 10 * (1 / (1 + np.exp(-1.0)) - 1 / (1 + np.exp(1.0)))
    np.testing.assert_allclose(effects, [gained if name == "affinity" else 0.0 for name in FEATURES], atol=1e-5)


def trained(labels: NDArray[np.integer], rows: NDArray[np.float32], **parameters: Any) -> Any:
    import lightgbm as untyped_lightgbm

    lightgbm: Any = untyped_lightgbm
    parameters = {"objective": "binary", "verbosity": -1, "num_threads": 1, "num_leaves": 15, **parameters}
    data = lightgbm.Dataset(rows, labels, categorical_feature=parameters.pop("categorical", "auto"))
    return lightgbm.train(parameters, data, num_boost_round=10)


def some_rows(many: int) -> NDArray[np.float32]:
    """Half of the features are whole numbers, as counts and flags are."""
    rows = np.random.default_rng(1).normal(0, 3, (many, len(FEATURES)))
    rows[:, ::2] = np.rint(rows[:, ::2])
    return rows.astype(np.float32)


def some_labels(rows: NDArray[np.float32], signal: int) -> NDArray[np.integer]:
    return (rows[:, signal] * rows[:, signal + 1] + np.random.default_rng(signal).normal(0, 1, len(rows)) > 0).astype(
        int
    )


def thresholds(tree: Tree) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    if isinstance(tree, Split):
        found[tree.feature] = [tree.threshold]
        for side in (tree.low, tree.high):
            for feature, values in thresholds(side).items():
                found.setdefault(feature, []).extend(values)
    return found


def test_what_lightgbm_trained_predicts_as_lightgbm_does_on_and_beside_every_threshold() -> None:
    rows = some_rows(3_000)
    boosters = [trained(some_labels(rows, signal), rows) for signal in range(len(PREDICTED))]
    forest = from_lightgbm(boosters)
    asked = [rows]
    for feature, values in ((f, v) for trees in forest.values() for tree in trees for f, v in thresholds(tree).items()):
        nearest = np.array(values, np.float32)
        for beside in (nearest, np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))):
            asked.append(rows[: len(beside)].copy())
            asked[-1][:, FEATURES.index(feature)] = beside
    matrix = np.concatenate(asked)
    expected = np.stack([booster.predict(matrix) for booster in boosters], axis=1)
    np.testing.assert_allclose(model(forest).predict(matrix), expected, atol=1e-5)


def test_a_signal_that_never_occurred_in_training_is_a_constant() -> None:
    rows = some_rows(500)
    never = trained(np.zeros(len(rows), np.int64), rows)
    sometimes = trained(some_labels(rows, 0), rows)
    boosters = [sometimes, never, never, sometimes, never]
    expected = np.stack([booster.predict(rows) for booster in boosters], axis=1)
    np.testing.assert_allclose(model(from_lightgbm(boosters)).predict(rows), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("features", "parameters", "complaint"),
    [
        (len(FEATURES), {"objective": "regression"}, "objective"),
        (len(FEATURES), {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, "objective"),
        (len(FEATURES), {"zero_as_missing": True}, "missing"),
        (len(FEATURES), {"linear_tree": True}, "linear"),
        (len(FEATURES), {"categorical": [0, 2]}, "splits by '=='"),
        (len(FEATURES) - 1, {}, "features"),
    ],
)
def test_boosters_that_are_no_sum_of_numerical_trees_are_refused(
    features: int, parameters: dict[str, Any], complaint: str
) -> None:
    rows = np.abs(some_rows(2_000)[:, :features])
    labels = (rows[:, 0] % 2 == 0).astype(int)
    with pytest.raises(ValueError, match=complaint):
        from_lightgbm([trained(labels, rows, **parameters)] * len(PREDICTED))


def test_a_booster_is_needed_for_each_signal() -> None:
    with pytest.raises(ValueError, match="shorter"):
        from_lightgbm([])


def test_leaves_are_told_from_low_to_high() -> None:
    assert list(leaves(chain(4))) == [0.0, 1 / 64, 2 / 64, 3 / 64]
