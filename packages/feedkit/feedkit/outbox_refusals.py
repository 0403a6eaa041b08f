"""Events of a shard that Kafka has refused: how long they are tried again, and whom they hold back meanwhile."""

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar


class Keyed(Protocol):
    """An event that waits."""

    @property
    def id(self) -> int:
        """What it has in the outbox."""
        ...

    @property
    def key(self) -> str:
        """What keeps its order."""
        ...


Event = TypeVar("Event", bound=Keyed)

LEAST_ATTEMPTS = 3
"""How often an event is at least sent alone before it is given up: it may have been in bad company once more."""


class _Refused(NamedTuple, Generic[Event]):
    event: Event
    since: float
    attempts: int
    """How often it was sent alone in vain."""


class Refusals(Generic[Event]):
    """Refused events. Nothing else of their keys is sent until they have arrived or were given up.

    Times are seconds of any one clock.
    """

    def __init__(self, *, patience_seconds: float, retry_seconds: float) -> None:
        """An event is given up that is refused for longer than `patience_seconds`, and each time."""
        self._patience_seconds = patience_seconds
        self._retry_seconds = retry_seconds
        self._refused: dict[int, _Refused[Event]] = {}
        self._due = 0.0

    @property
    def keys(self) -> list[str]:
        """The keys that are held back."""
        return sorted({refused.event.key for refused in self._refused.values()})

    def note(self, events: Iterable[Event], now: float) -> None:
        """Hold events back that have been refused for the first time."""
        for event in events:
            if not self._refused:
                self._due = now + self._retry_seconds
            self._refused.setdefault(event.id, _Refused(event, now, 0))

    def take_due(self, now: float) -> list[Event]:
        """The events that are to be tried once more, oldest first; none before it is time."""
        if now < self._due:
            return []
        self._due = now + self._retry_seconds
        return [refused.event for _, refused in sorted(self._refused.items())]

    def note_again(self, event: Event, now: float) -> bool:
        """Note that an event was refused alone, too. Whether that is so for so long that it is to be given up."""
        refused = self._refused[event.id]
        self._refused[event.id] = refused = refused._replace(attempts=refused.attempts + 1)
        return now - refused.since >= self._patience_seconds and refused.attempts >= LEAST_ATTEMPTS

    def forget(self, event: Event) -> None:
        """Hold back nobody for an event any more."""
        del self._refused[event.id]

    def pause(self, now: float) -> float | None:
        """In how many seconds something is to be tried once more; None where nothing is."""
        return max(0.0, self._due - now) if self._refused else None
