"""The span of a request, from its first header to the last byte of its answer."""

from http import HTTPStatus

from feedkit import telemetry
from opentelemetry.trace import Span, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_W3C = {b"traceparent": "traceparent", b"tracestate": "tracestate"}


class Tracing:
    """The ASGI layer around all others. It continues the caller's trace; a malformed `traceparent` starts a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        parent = telemetry.extract(_carrier(scope))
        method: str = scope["method"]
        with telemetry.server_span(method, parent, {"http.request.method": method}) as span:
            if not span.is_recording():
                await self._app(scope, receive, send)
                return

            async def observed(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _describe(span, scope, message["status"])
                await send(message)

            await self._app(scope, receive, observed)


def _carrier(scope: Scope) -> dict[str, str]:
    return {_W3C[name]: value.decode("latin-1") for name, value in scope["headers"] if name in _W3C}


def _describe(span: Span, scope: Scope, status: int) -> None:
    span.set_attribute("url.scheme", scope["scheme"])
    span.set_attribute("url.path", scope["path"])
    span.set_attribute("http.response.status_code", status)
    # Named after the template, because a name for each id would be no name. Unknown paths have none.
    if (route := scope.get("route")) is not None:
        span.update_name(f"{scope['method']} {route.path}")
        span.set_attribute("http.route", route.path)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_status(StatusCode.ERROR)
