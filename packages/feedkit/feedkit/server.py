"""The life of a server process, the same for all.

NOT_SERVING → dependencies reached → SERVING → SIGTERM → NOT_SERVING → drain → stop with grace → resources closed in
reverse → telemetry flushed → exit 0. Readiness follows the dependencies while the process runs. Liveness, the health
service's name `live`, never looks at one: a database that is away must not get healthy processes killed.
"""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
)
from typing import Any, NamedTuple, TypeVar, cast

import grpc
import grpc.aio
import uvloop
from grpc_health.v1 import health as _health
from grpc_health.v1 import health_pb2
from grpc_health.v1 import health_pb2_grpc as _health_grpc
from grpc_reflection.v1alpha import reflection
from pydantic import Field

from feedkit import logs, telemetry
from feedkit.config import AnySettings, ConfigurationError, Listen, Settings, load
from feedkit.interceptors import Registrar
from feedkit.transport import MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES, SERVER_KEEPALIVE

logger = logging.getLogger(__name__)

# Published without types, or with too few.
health = cast("Any", _health)
health_grpc = cast("Any", _health_grpc)

LIVENESS = "live"
"""The name under which the health service answers for liveness: SERVING as long as the process answers at all."""
READINESS_INTERVAL_SECONDS = 1.0
READINESS_TIMEOUT_SECONDS = 2.0

Check = Callable[[], Awaitable[None]]
"""Raises where a dependency is not ready."""
Resource = TypeVar("Resource")
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class StartError(Exception):
    """The process cannot start, for a reason that the message tells in one line."""


class GrpcServerSettings(Settings):
    """Settings of a process that serves gRPC."""

    grpc_listen: Listen = Field(default="0.0.0.0:50051", description="Where gRPC is served, `host:port`.")
    grpc_unary_seconds: float = Field(
        default=10.0,
        gt=0,
        description="The longest that a unary call may take; callers without a deadline get this one.",
    )
    grpc_stream_seconds: float = Field(default=600.0, gt=0, description="The longest that a stream may take, likewise.")
    grpc_max_concurrent_calls: int = Field(
        default=1000, gt=0, description="Calls beyond this many at once are refused with RESOURCE_EXHAUSTED."
    )
    grpc_max_connection_age_seconds: float = Field(
        default=300.0,
        gt=0,
        description="Connections older than this are closed gracefully, so that clients look names up anew and find new "
        "servers.",
    )


class Process:
    """A running process: its resources, its servers and its end."""

    def __init__(self, name: str, settings: Settings, resources: AsyncExitStack) -> None:
        self.name = name
        self.settings = settings
        self.stopping = asyncio.Event()
        self.address: str | None = None
        """Where gRPC is served, once it is: `host:port` with the port that was got where port 0 was asked for."""
        self._resources = resources
        self._opening: asyncio.Task[Any] | None = None

    async def enter(self, resource: AbstractAsyncContextManager[Resource]) -> Resource:
        """Open a resource. Resources are closed in reverse order when the process ends.

        A stop that is asked for meanwhile cancels this, so that a store that is away does not hold up the end.
        """
        self._opening = asyncio.current_task()
        try:
            if self.stopping.is_set():
                raise asyncio.CancelledError
            return await self._resources.enter_async_context(resource)
        finally:
            self._opening = None

    def stop(self) -> None:
        """Ask the process to stop, as SIGTERM does."""
        if not self.stopping.is_set():
            self.stopping.set()
            if self._opening is not None:
                self._opening.cancel()

    async def serve(
        self,
        settings: GrpcServerSettings,
        register: Callable[[grpc.aio.Server], None],
        services: Sequence[str],
        ready: Sequence[Check] = (),
    ) -> None:
        """Serve gRPC until the process is stopped.

        `register` adds the servicers; `services` are their full names, for health and reflection; `ready` are checks that
        all must pass for the server to call itself SERVING.
        """
        server = _make_server(settings)
        healthy = _Health()
        names = ["", *services]
        await _set_health(healthy, names, _NOT_SERVING)
        await healthy.set(LIVENESS, _SERVING)
        register(_registrar(server, settings))
        health_grpc.add_HealthServicer_to_server(healthy, server)
        reflection.enable_server_reflection([*services, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
        address = _bind(server, settings.grpc_listen)
        await server.start()
        self.address = address
        logger.info("listening", extra={"address": address})
        try:
            await watch_readiness(ready, self.stopping, lambda serving: _report(healthy, names, serving))
            await _set_health(healthy, names, _NOT_SERVING)
            logger.info("draining", extra={"seconds": settings.drain_seconds})
            await asyncio.sleep(settings.drain_seconds)
        finally:
            healthy.end_watches()
            await server.stop(settings.grace_seconds)

    async def until_stopped(self) -> None:
        """Wait for SIGTERM or SIGINT."""
        await self.stopping.wait()


class _Health(health.aio.HealthServicer):
    """The health service, whose open-ended watches do not hold up the end of the process."""

    def __init__(self) -> None:
        health.aio.HealthServicer.__init__(self)
        self._watches: set[asyncio.Task[Any]] = set()
        self._ending = False

    async def Watch(self, request: Any, context: Any) -> None:
        """Tell a service's health whenever it changes."""
        watch: asyncio.Task[Any] = asyncio.create_task(health.aio.HealthServicer.Watch(self, request, context))
        self._watches.add(watch)
        try:
            await asyncio.wait([watch])
        finally:
            self._watches.discard(watch)
            watch.cancel()
        if self._ending:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
        await watch

    def end_watches(self) -> None:
        """End the watches."""
        self._ending = True
        for watch in self._watches:
            watch.cancel()


def once(check: Check) -> Check:
    """A check that passes for good as soon as it has passed once: for neighbours, not for a process's own store.

    A neighbour that is down later is told by answers, as far as they need it. Were this process to call itself not ready
    then, one outage would take every process above it away too, and nobody could say so cleanly.
    """
    passed = False

    async def checked() -> None:
        nonlocal passed
        if not passed:
            await check()
            passed = True

    return checked


async def watch_readiness(
    checks: Sequence[Check], stopping: asyncio.Event, report: Callable[[bool], Awaitable[None]]
) -> None:
    """Run the checks again and again until the process is to stop, reporting each change between ready and not ready."""
    ready: bool | None = None
    while not stopping.is_set():
        problem = await _first_problem(checks)
        if ready is not (problem is None):
            ready = problem is None
            await report(ready)
            if problem is None:
                logger.info("ready")
            else:
                logger.warning("not ready: %s", problem)
        try:
            async with asyncio.timeout(READINESS_INTERVAL_SECONDS if ready else 0.1):
                await stopping.wait()
        except TimeoutError:
            continue


async def _first_problem(checks: Sequence[Check]) -> str | None:
    try:
        async with asyncio.timeout(READINESS_TIMEOUT_SECONDS):
            for check in checks:
                await check()
    except TimeoutError:
        return "a dependency does not answer"
    except Exception as error:
        why = f" ({error.__cause__})" if error.__cause__ else ""
        return (str(error) or type(error).__name__) + why
    return None


async def _report(healthy: Any, names: Sequence[str], serving: bool) -> None:
    await _set_health(healthy, names, _SERVING if serving else _NOT_SERVING)


async def _set_health(healthy: Any, names: Sequence[str], status: Any) -> None:
    for name in names:
        await healthy.set(name, status)


def _make_server(settings: GrpcServerSettings) -> grpc.aio.Server:
    age_ms = int(settings.grpc_max_connection_age_seconds * 1000)
    return grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_connection_age_ms", age_ms),
            ("grpc.max_connection_age_grace_ms", int(settings.grpc_unary_seconds * 1000)),
            # Shedding is the registrar's, which says why and when to come back; gRPC's own just cancels.
            ("grpc.server.max_pending_requests", 100_000),
            ("grpc.server.max_pending_requests_hard_limit", 200_000),
            # Two servers on one port would share its connections in silence.
            ("grpc.so_reuseport", 0),
            *SERVER_KEEPALIVE,
        ],
    )


def _registrar(server: grpc.aio.Server, settings: GrpcServerSettings) -> Registrar:
    return Registrar(
        server,
        unary_seconds=settings.grpc_unary_seconds,
        stream_seconds=settings.grpc_stream_seconds,
        concurrent_calls=settings.grpc_max_concurrent_calls,
    )


def _bind(server: grpc.aio.Server, address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        # Tried first, because gRPC does not tell why it cannot, and writes lines of its own to the log.
        _try_to_bind(host.strip("[]"), int(port))
        return f"{host}:{server.add_insecure_port(address)}"
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StartError(f"cannot listen on {address}: {why}") from error


def _try_to_bind(host: str, port: int) -> None:
    [(family, kind, protocol, _, where), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(where)


@asynccontextmanager
async def running(name: str, settings: Settings) -> AsyncGenerator[Process]:
    """A process from its start to its end; SIGTERM and SIGINT ask it to stop."""
    async with AsyncExitStack() as resources:
        process = Process(name, settings, resources)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.stop)
        try:
            yield process
        except asyncio.CancelledError:
            if not process.stopping.is_set():
                raise
        logger.info("stopping")


class Role(NamedTuple):
    """A further process of a service, with settings of its own, served as the service itself is."""

    settings: type[Any]
    run: Callable[[Process, Any], Awaitable[None]]


def main(
    name: str,
    settings_class: type[AnySettings],
    run: Callable[[Process, AnySettings], Awaitable[None]],
    commands: Mapping[str, Callable[[AnySettings], Awaitable[None]]] | None = None,
    roles: Mapping[str, Role] | None = None,
) -> None:
    """The entry point of a process: `python -m <module>` serves; further words name other commands, such as `migrate`.

    `roles` are words that serve as well: `relay` of the service `post` is a process called `post-relay`.

    Exits 0 after an orderly stop, 1 with one clear line where it cannot start, 2 for an unknown command.
    """
    commands, roles = commands or {}, roles or {}
    arguments = sys.argv[1:]
    if len(arguments) > 1 or (arguments and arguments[0] not in {*commands, *roles}):
        sys.exit(_usage(name, " | ".join(sorted({*commands, *roles}))))
    if arguments and (command := commands.get(arguments[0])):
        _run(name, settings_class, lambda settings: _command(command, settings))
    elif arguments:
        role = roles[arguments[0]]
        _run_server(f"{name}-{arguments[0]}", role.settings, role.run)
    else:
        _run_server(name, settings_class, run)


def _run_server(
    name: str, settings_class: type[AnySettings], run: Callable[[Process, AnySettings], Awaitable[None]]
) -> None:
    async def serve(settings: AnySettings) -> None:
        async with running(name, settings) as process:
            await run(process, settings)

    _run(name, settings_class, serve, lambda: telemetry.configured(name))


def _run(
    name: str,
    settings_class: type[AnySettings],
    work: Callable[[AnySettings], Coroutine[Any, Any, None]],
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    # The level is a setting, and settings may be wrong, which has to be logged already.
    logs.configure(name, "INFO")
    try:
        settings = load(settings_class)
        logs.configure(name, settings.log_level)
        with around():
            uvloop.run(work(settings))
    except (ConfigurationError, StartError) as error:
        logger.error("cannot start: %s", error)
        sys.exit(1)
    except Exception:
        logger.exception("stopped by an unforeseen error")
        sys.exit(1)


def _usage(name: str, commands: str) -> int:
    sys.stderr.write(f"usage: python -m <{name}>{f' [{commands}]' if commands else ''}\n")
    return 2


async def _command(command: Callable[[AnySettings], Awaitable[None]], settings: AnySettings) -> None:
    await command(settings)
