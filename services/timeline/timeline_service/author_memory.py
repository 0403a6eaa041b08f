"""What was read of authors lately, so that it need not be read for each viewer."""

import time
from collections.abc import Callable, Sequence


class AuthorMemory:
    """How people take what authors write, as it was read lately: it fades over days, and many viewers share authors."""

    def __init__(self, *, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Of at most so many authors, those read last, for so long; by a clock that only goes forward."""
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._values: dict[int, tuple[float, bytes]] = {}

    def known(self, author_ids: Sequence[int]) -> dict[int, bytes | None]:
        """The value of each author, in their order; None where it has to be read."""
        now, nothing = self._clock(), (0.0, b"")
        found = ((author_id, self._values.get(author_id, nothing)) for author_id in author_ids)
        return {author_id: value if until > now else None for author_id, (until, value) in found}

    def remember(self, author_ids: Sequence[int], values: Sequence[bytes | None]) -> dict[int, bytes]:
        """Remember what was read; nothing of somebody is something to remember too. The value of each author."""
        until = self._clock() + self._seconds
        read = {author_id: value or b"" for author_id, value in zip(author_ids, values, strict=True)}
        for author_id, value in read.items():
            # Those read last come last.
            self._values.pop(author_id, None)
            self._values[author_id] = until, value
        while len(self._values) > self._most:
            del self._values[next(iter(self._values))]
        return read
