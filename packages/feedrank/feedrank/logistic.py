"""From log odds to probabilities."""

import numpy as np
from numpy.typing import NDArray


def probabilities(log_odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """The logistic function, for floats of 4 bytes of any size."""
    one = np.float32(1.0)
    return one / (one + np.exp(np.fmin(-log_odds, np.float32(80.0))))  # exp of more than 88 is no such float
