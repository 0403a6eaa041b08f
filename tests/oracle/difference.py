"""What a programme is run for."""


class Difference(AssertionError):
    """What was seen is not what has to be seen; the message tells both."""
