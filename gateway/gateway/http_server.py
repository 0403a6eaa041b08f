"""HTTP served by uvicorn within the life cycle that all processes share."""

import asyncio
import logging
import math
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import uvicorn
from feedkit.server import Check, Process, StartError, watch_readiness
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.config import GatewaySettings
from gateway.http_protocol import limited
from gateway.routes.health import Health

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
"""How long an idle connection is kept: longer than the minute after which load balancers commonly close theirs, so that it
is they who do it, and no request meets a connection that is just being closed."""
BACKLOG = 2048


async def serve(
    process: Process, settings: GatewaySettings, app: ASGIApp, health: Health, checks: Sequence[Check]
) -> None:
    """Serve until the process is stopped: not ready, drained, then stopped with grace. Raises StartError."""
    listener = _listen(settings.http_listen)
    retiring = _Retiring(app)
    server = _Server(_configuration(retiring, settings))
    logger.info("listening", extra={"address": settings.http_listen})
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.serve(sockets=[listener]))
        try:
            await watch_readiness(checks, process.stopping, health.report)
            await health.report(False)
            retiring.active = True
            logger.info("draining", extra={"seconds": settings.drain_seconds})
            await asyncio.sleep(settings.drain_seconds)
        finally:
            server.should_exit = True


def _listen(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), int(port)), family=family, backlog=BACKLOG)
    except (OSError, OverflowError):
        raise StartError(f"cannot listen on {address}: the port is in use or the address is not ours") from None


def _configuration(app: ASGIApp, settings: GatewaySettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=limited(settings),
        ws="none",
        lifespan="off",
        # Logs go where all of the process's go.
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=[("x-content-type-options", "nosniff")],
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds),
    )


class _Server(uvicorn.Server):
    """Leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class _Retiring:
    """Once active, asks the client of each answer for another connection, before this one goes away."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.active = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, _closing(send) if self.active else send)


def _closing(send: Send) -> Send:
    async def closing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
        await send(message)

    return closing
