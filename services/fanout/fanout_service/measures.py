"""What an operator wants to know of fan-out all the time: how far it is behind, and where the celebrity line is."""

from collections.abc import Callable

from feedkit import telemetry

from fanout_service.lag_client import LagClient
from fanout_service.line_in_force import LineInForce
from fanout_service.rpc import DELIVERY
from fanout_service.settlement import Work


class Measures:
    """Taken now and then. The leader alone asks the broker, since its answer is about all processes together."""

    def __init__(self, lag: LagClient, line: LineInForce, leads: Callable[[], bool]) -> None:
        self._lag = lag
        self._line = line
        self._leads = leads
        self._threshold = telemetry.Reading(
            "feed.fanout.threshold", unit="{follower}", description="From how many followers on authors are pulled."
        )
        self._events = telemetry.Reading(
            "feed.fanout.lag.events", unit="{event}", description="Events that are not handled, by work."
        )
        self._age = telemetry.Reading(
            "feed.fanout.lag.age", unit="s", description="How old the oldest event is on a post's way to a timeline."
        )

    async def take(self) -> None:
        """Take all of them. Raises Unavailable where the broker does not tell."""
        self._threshold.set(self._line.threshold)
        if not self._leads():
            return
        for work in Work:
            self._events.set(await self._lag.of(work), {"work": work.value})
        self._age.set(await self._lag.oldest_ms(*DELIVERY) / 1000)
