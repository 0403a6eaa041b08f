"""Effects, for a prediction of which they are known."""

import numpy as np
from feedrank.effects import by_substitution
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

NUMBERS = st.integers(-9, 9).map(float)


@settings(deadline=None)
@given(arrays(np.float32, (3, 4), elements=NUMBERS), arrays(np.float32, 4, elements=NUMBERS), st.data())
def test_of_a_linear_prediction_each_feature_moves_its_own_part(
    rows: NDArray[np.float32], neutral: NDArray[np.float32], data: st.DataObject
) -> None:
    coefficients = data.draw(arrays(np.float32, (4, 2), elements=NUMBERS))
    weights = data.draw(arrays(np.float64, 2, elements=NUMBERS))
    effects = by_substitution(lambda matrix: matrix @ coefficients, neutral, rows, weights)
    np.testing.assert_allclose(effects, (rows - neutral) * (coefficients @ weights), atol=1e-3)


def test_everything_is_predicted_in_one_batch() -> None:
    batches: list[int] = []

    def predict(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        batches.append(len(matrix))
        return matrix

    by_substitution(predict, np.zeros(3, np.float32), np.ones((20, 3), np.float32), np.ones(3))
    assert batches == [20 * (3 + 1)]


def test_no_rows_have_no_effects() -> None:
    effects = by_substitution(lambda matrix: matrix, np.zeros(3, np.float32), np.ones((0, 3), np.float32), np.ones(3))
    assert effects.shape == (0, 3)
