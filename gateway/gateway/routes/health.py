"""Whether the gateway lives, and whether it can be of use."""

from starlette.requests import Request

from gateway.answers import Answer, ok
from gateway.resource import Paths


class Health:
    """`/healthz` looks at nothing; `/readyz` is 200 from when all four services were there until the end is near."""

    def __init__(self) -> None:
        self._ready = False

    async def report(self, ready: bool) -> None:
        """Note a change. Readiness is watched in the background, because probes must be quick and cost nothing."""
        self._ready = ready

    @property
    def paths(self) -> Paths:
        """What is served where."""
        return {"/healthz": {"GET": self.live}, "/readyz": {"GET": self.ready}}

    async def live(self, _request: Request) -> Answer:
        """Always 200: where this is answered, the process lives."""
        return ok({"status": "ok"})

    async def ready(self, _request: Request) -> Answer:
        """200 or 503. A service that is away later is told by the answers that need it."""
        return ok({"status": "ready"}) if self._ready else ok({"status": "not ready"}, 503)
