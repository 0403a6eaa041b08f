"""The baseline: its table says what it does."""

import numpy as np
import pytest
from feedrank.baseline import BIAS, COEFFICIENTS, Baseline
from feedrank.features import FEATURES, NEUTRAL
from feedrank.signals import PREDICTED
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

BASELINE = Baseline()
ROWS = arrays(np.float32, (3, len(FEATURES)), elements=st.floats(-30, 30, width=32))


def but(**features: float) -> NDArray[np.float32]:
    """One row: a post of which only these features are known."""
    row = NEUTRAL.copy()
    for name, value in features.items():
        row[FEATURES.index(name)] = value
    return row[None, :]


def predicted(signal: str, **features: float) -> float:
    return float(BASELINE.predict(but(**features))[0, PREDICTED.index(signal)])


def test_every_feature_has_a_coefficient_for_every_signal() -> None:
    assert tuple(COEFFICIENTS) == FEATURES
    assert all(len(coefficients) == len(PREDICTED) for coefficients in [BIAS, *COEFFICIENTS.values()])


def test_the_chances_of_an_unknown_post_are_those_that_are_documented() -> None:
    np.testing.assert_allclose(BASELINE.predict(but())[0], [0.04, 0.01, 0.01, 0.25, 0.003], rtol=0.01)


def test_a_coefficient_multiplies_the_odds_for_each_step_of_its_feature() -> None:
    chance, raised = predicted("like"), predicted("like", affinity=2.0)
    assert raised / (1 - raised) == pytest.approx(chance / (1 - chance) * np.exp(2 * 0.7), rel=1e-5)


@settings(deadline=None)
@given(ROWS)
def test_predictions_are_probabilities(rows: NDArray[np.float32]) -> None:
    chances = BASELINE.predict(rows)
    assert chances.shape == (3, len(PREDICTED))
    assert chances.dtype == np.float32
    assert ((chances >= 0) & (chances <= 1)).all()


@pytest.mark.parametrize("signal", ["like", "reply", "repost", "dwell"])
@pytest.mark.parametrize("feature", ["affinity", "author_engagement", "engagement", "velocity", "favourite"])
def test_what_speaks_for_a_post_raises_all_that_is_wanted(feature: str, signal: str) -> None:
    assert predicted(signal, **{feature: 1.0}) > predicted(signal)


@pytest.mark.parametrize("signal", PREDICTED)
def test_after_a_first_sight_less_of_everything_is_expected(signal: str) -> None:
    assert predicted(signal, seen=1.0) < predicted(signal)


def test_more_dislike_is_expected_of_authors_who_are_disliked() -> None:
    assert predicted("negative", author_negative=1.0) > predicted("negative") < predicted("negative", affinity=-1.0)


def test_a_post_is_expected_to_get_less_attention_with_age() -> None:
    chances = BASELINE.predict(np.concatenate([but(age=age) for age in (0.0, 1.0, 3.0, 5.0)]))
    assert (np.diff(chances[:, :4], axis=0) < 0).all()


def test_a_feature_that_says_nothing_has_no_effect_and_the_others_have_what_they_change() -> None:
    weights = np.array([1.0, 2.0, 3.0, 0.5, -4.0])
    row = but(affinity=2.0, seen=1.0)
    effects = dict(zip(FEATURES, BASELINE.effects(row, weights)[0], strict=True))

    def score(**features: float) -> float:
        return float((BASELINE.predict(but(**features)) @ weights)[0])

    assert effects.pop("affinity") == pytest.approx(score(affinity=2.0, seen=1.0) - score(seen=1.0), rel=1e-4)
    assert effects.pop("seen") == pytest.approx(score(affinity=2.0, seen=1.0) - score(affinity=2.0), rel=1e-4)
    assert set(effects.values()) == {0.0}
