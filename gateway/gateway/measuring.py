"""How long requests take, from their first header to the last byte of their answer."""

import time

from feedkit import telemetry
from opentelemetry.metrics import Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"})
OTHER = "_OTHER"
"""OpenTelemetry's name for a method that its sender made up. Each name that is told is kept for ever."""


def measured(app: ASGIApp) -> ASGIApp:
    """The application, measured where metrics are wanted. Without them no request is timed."""
    if not telemetry.is_measuring():
        return app
    return Measuring(app, telemetry.durations("http.server.request.duration", description="How long requests took."))


class Measuring:
    """The ASGI layer that measures."""

    def __init__(self, app: ASGIApp, durations: Histogram) -> None:
        self._app = app
        self._durations = durations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. One that was given up before its answer began is measured without a status."""
        status: int | None = None

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.perf_counter()
        try:
            await self._app(scope, receive, observed)
        finally:
            self._durations.record(time.perf_counter() - began, _attributes(scope, status))


def _attributes(scope: Scope, status: int | None) -> dict[str, str | int]:
    method: str = scope["method"]
    attributes: dict[str, str | int] = {"http.request.method": method if method in METHODS else OTHER}
    # The template, for the same reason as above. Unknown paths have none.
    if (route := scope.get("route")) is not None:
        attributes["http.route"] = route.path
    if status is not None:
        attributes["http.response.status_code"] = status
    return attributes
