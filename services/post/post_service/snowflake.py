"""Snowflake ids: which one comes next, given what the clock says."""

from feedkit.cursor import EPOCH_MS, SEQUENCE_BITS, TIME_SHIFT

SEQUENCES = 1 << SEQUENCE_BITS
"""How many ids one worker can make in a millisecond."""


class Early(Exception):
    """No id can be made yet: the clock has to go forward by `wait_ms` milliseconds first."""

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"the clock has to go forward by {wait_ms} ms first")
        self.wait_ms = wait_ms


class Snowflakes:
    """The ids of one worker number, strictly ascending, none of them before the Unix millisecond `floor_ms`.

    The same number and floor must never be used by two of these.
    """

    def __init__(self, worker: int, floor_ms: int) -> None:
        self.worker = worker
        self._ms = max(floor_ms, EPOCH_MS)
        self._sequence = 0

    @property
    def reached_ms(self) -> int:
        """The millisecond before which no id will be made any more."""
        return self._ms

    @property
    def unused_ms(self) -> int:
        """The first millisecond of which no id has been made."""
        return self._ms + 1 if self._sequence else self._ms

    def observe(self, now_ms: int) -> None:
        """Take note of the time, so that a later backward step is noticed even where no id was made meanwhile."""
        if now_ms > self._ms:
            self._ms, self._sequence = now_ms, 0

    def take(self, now_ms: int) -> int:
        """The next id, at the Unix millisecond `now_ms`.

        Raises Early where the clock is behind the millisecond that was reached, or that one is used up.
        """
        self.observe(now_ms)
        if now_ms < self._ms:
            raise Early(self._ms - now_ms)
        if self._sequence == SEQUENCES:
            raise Early(1)
        post_id = (self._ms - EPOCH_MS) << TIME_SHIFT | self.worker << SEQUENCE_BITS | self._sequence
        self._sequence += 1
        return post_id
