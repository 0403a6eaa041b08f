"""Each figure equals its definition, written out."""

import math

import numpy as np
import pytest
from feedrank.metrics import (
    auc,
    calibration_error,
    gini,
    interval,
    log_loss,
    mean_interval,
    ndcg,
    reliability,
    resampled,
    top_share,
    weighted_auc,
)
from hypothesis import given
from hypothesis import strategies as st

SCORED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=30)


@given(SCORED)
def test_auc_is_how_often_the_right_one_of_a_pair_has_the_higher_score(rows: list[tuple[int, bool]]) -> None:
    pairs = [(yes > no) + (yes == no) / 2 for yes, happened in rows if happened for no, other in rows if not other]
    found = auc(np.array([score for score, _ in rows], float), np.array([happened for _, happened in rows], bool))
    assert found == pytest.approx(np.mean(pairs) if pairs else math.nan, nan_ok=True)


def test_a_weight_is_as_good_as_repeating_a_row() -> None:
    scores, labels, times = np.array([1.0, 2, 2, 3]), np.array([True, False, True, False]), np.array([3, 1, 0, 2])
    weighted = weighted_auc(scores, labels)(times.astype(float))
    assert weighted == pytest.approx(auc(np.repeat(scores, times), np.repeat(labels, times)))


def test_log_loss_is_small_for_what_was_expected_and_finite_for_what_was_impossible() -> None:
    labels = np.array([True, False])
    assert log_loss(np.array([0.5, 0.5]), labels) == pytest.approx(math.log(2))
    assert log_loss(np.array([1.0, 0.0]), labels) == pytest.approx(0.0, abs=1e-9)
    assert math.isfinite(log_loss(np.array([0.0, 1.0], np.float32), labels))
    assert math.isnan(log_loss(np.zeros(0), np.zeros(0, bool)))


def test_bins_hold_equally_many_and_tell_how_far_predictions_are_from_what_happens() -> None:
    probabilities = np.array([0.1, 0.1, 0.9, 0.9])
    bins = reliability(probabilities, np.array([False, True, True, True]), bins=2)
    assert bins == [pytest.approx((0.1, 0.5, 2)), pytest.approx((0.9, 1.0, 2))]
    assert calibration_error(bins) == pytest.approx(0.25)
    assert math.isnan(calibration_error(reliability(np.zeros(0), np.zeros(0, bool))))


def test_ndcg_is_1_for_the_best_order_and_counts_places_less_further_down() -> None:
    worth = [3.0, 2.0, 0.0]
    assert ndcg(worth, worth) == 1.0
    assert ndcg([0.0, 2.0, 3.0], worth) == pytest.approx((2 / math.log2(3) + 3 / 2) / (3 + 2 / math.log2(3)))
    assert ndcg([0.0, 0.0, 3.0], worth, first=2) == 0.0
    assert math.isnan(ndcg([0.0], [0.0]))


def test_gini_is_0_where_all_have_the_same_and_near_1_where_one_has_it_all() -> None:
    assert gini([5, 5, 5, 5]) == pytest.approx(0.0)
    assert gini([0] * 99 + [7]) == pytest.approx(0.99)
    assert gini([1, 2, 3]) == pytest.approx(2 / 9)
    assert math.isnan(gini([0, 0]))


def test_the_share_of_the_top_is_that_of_at_least_one() -> None:
    assert top_share([1, 1, 2]) == 0.5
    assert top_share([3] * 2 + [1] * 198) == pytest.approx(6 / 204)
    assert math.isnan(top_share([]))


def test_rows_of_a_viewer_are_drawn_together_and_as_many_viewers_as_there_are() -> None:
    weights = resampled(np.array([7, 7, 8, 9]), seed=1, resamples=50)
    assert np.array_equal(weights[:, 0], weights[:, 1])
    assert np.all(weights[:, 1:].sum(axis=1) == 3)
    assert len(np.unique(weights, axis=0)) > 5
    assert np.array_equal(weights, resampled(np.array([7, 7, 8, 9]), seed=1, resamples=50))


def test_an_interval_holds_the_figure_and_what_cannot_be_said_is_no_number() -> None:
    chance = np.random.default_rng(1)
    labels = chance.random(400) < 0.5
    scores = labels + chance.normal(size=400)
    found = interval(weighted_auc(scores, labels), resampled(np.arange(400), seed=1))
    assert found.low < found.value < found.high
    assert 0.02 < found.high - found.low < 0.2
    one_sided = interval(weighted_auc(scores, np.ones(400, bool)), resampled(np.arange(400), seed=1))
    assert str(one_sided) == "–"


def test_the_interval_of_a_mean_is_that_of_the_known_values() -> None:
    found = mean_interval([1.0, 2.0, 3.0, math.nan])
    assert found.value == 2.0
    assert 1.0 <= found.low < 2.0 < found.high <= 3.0
    assert math.isnan(mean_interval([math.nan]).value)
