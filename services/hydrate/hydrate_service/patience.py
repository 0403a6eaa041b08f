"""How long a call to another service is waited for."""

from feedkit import deadline
from feedkit.channel import CALL_SECONDS

ANSWER_SECONDS = 0.05
"""What is kept of the caller's deadline, so that an answer that says UNAVAILABLE still arrives in time."""


def seconds_for_a_call() -> float:
    """The timeout of the next call, in seconds; at least half of what is left of a very short deadline.

    Raises DeadlineExceeded where nothing is left.
    """
    left = deadline.timeout_for_call(CALL_SECONDS)
    return max(left - ANSWER_SECONDS, left / 2)
