"""By how much each feature moved a score."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


def by_substitution(
    predict: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    neutral: NDArray[np.float32],
    rows: NDArray[np.float32],
    weights: NDArray[np.floating],
) -> NDArray[np.float32]:
    """(k, F): each row's score less what it would be with one feature at its neutral value and all others as they are.

    A score is the predictions times `weights` (one for each signal of PREDICTED). Above 0: the feature lifted the post.
    Where features act together, effects need not add up to the score. Everything is predicted in one batch.
    """
    many, features = rows.shape
    batch = np.repeat(rows[:, None, :], features + 1, axis=1)  # the last of each row's variants stays as it is
    each = np.arange(features, dtype=np.intp)
    batch[:, each, each] = neutral
    scores = (predict(batch.reshape(-1, features)) @ weights).reshape(many, features + 1)
    return (scores[:, -1:] - scores[:, :-1]).astype(np.float32)
