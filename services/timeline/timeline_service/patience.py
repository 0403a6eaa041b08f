"""How much of the time that is left a call to another service may take."""

ANSWER_SECONDS = 0.05
"""What is kept for answering. Whoever waits to the last moment for others cannot tell in time that they failed."""


def share(left: float) -> float:
    """The seconds that the next call may take where `left` seconds are left; half of a very short rest."""
    return max(left - ANSWER_SECONDS, left / 2)
