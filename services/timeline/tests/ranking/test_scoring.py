"""Scores are weighted sums of predictions; without weights there is nothing to rank by."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.ranking.arrangement import rank
from timeline_service.ranking.rules import ALL_RULES
from timeline_service.ranking.scoring import score

from .lines import Post, candidates, lines, unhurried

WEIGHTS = (1.0, 3.0, 2.0, 0.5, -4.0)


def test_a_score_is_the_weighted_sum_of_what_is_predicted() -> None:
    predictions = [[0.5, 0.1, 0.0, 0.4, 0.0], [0.1, 0.0, 0.0, 0.2, 0.3]]
    assert score(predictions, WEIGHTS).tolist() == pytest.approx([1.0, -1.0])


@pytest.mark.parametrize("weights", [(1.0,), (*WEIGHTS, 1.0), ()])
def test_as_many_weights_as_signals_are_needed(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights for predictions"):
        score(np.zeros((3, 5)), weights)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (3, 6), (1, 3, 5)])
def test_predictions_have_a_column_for_each_signal(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="predictions of shape"):
        score(np.zeros(shape), WEIGHTS)


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_a_model_that_predicts_no_number_is_refused(nothing: float) -> None:
    with pytest.raises(ValueError, match="no finite number"):
        score([[nothing, 0, 0, 0, 0]], WEIGHTS)


@unhurried
@given(lines(), st.data())
def test_with_all_weights_zero_the_order_is_latest_and_no_rule_is_applied(
    posts: list[Post], data: st.DataObject
) -> None:
    predictions = data.draw(
        st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=len(posts), max_size=len(posts))
    )
    order = rank(candidates(posts), np.reshape(predictions, (len(posts), 5)), (0, 0, 0, 0, -0.0), ALL_RULES)
    assert order.rows.tolist() == order.scored_places.tolist() == list(range(len(posts)))
    assert not order.steps
    assert not order.scores.any()


def test_with_one_weight_the_order_is_by_that_signal() -> None:
    predictions = [[0.1, 0, 0, 0, 0], [0.3, 0, 0, 0, 0], [0.2, 0, 0, 0, 0]]
    posts = [Post(author=author) for author in (1, 2, 3)]
    assert rank(candidates(posts), predictions, (1, 0, 0, 0, 0), ALL_RULES).rows.tolist() == [1, 2, 0]
