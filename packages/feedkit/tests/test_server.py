"""The life of a process: it says when it can serve, stops without cutting anybody off, and tells in one line why it
cannot start."""

import asyncio
import logging
import signal
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel
from feedkit.config import Settings
from feedkit.errors import Unavailable
from feedkit.server import LIVENESS, Process, once, watch_readiness
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

pytestmark = pytest.mark.integration

NAME = "feed.hydrate.v1.HydrateService"
SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
Eventually = Callable[[Callable[[], bool]], Awaitable[None]]
StartToy = Callable[..., Awaitable[Any]]
RunToy = Callable[..., Any]


def plainly(target: str) -> Any:
    return grpc.aio.insecure_channel(target)


async def health(target: str, service: str = "") -> str:
    """What the process says of itself, or the code of its refusal."""
    async with plainly(target) as connection:
        check = connection.unary_unary(
            "/grpc.health.v1.Health/Check", response_deserializer=health_pb2.HealthCheckResponse.FromString
        )
        try:
            answer = await check(health_pb2.HealthCheckRequest(service=service).SerializeToString(), timeout=5)
        except grpc.aio.AioRpcError as error:
            return error.code().name
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


async def until_health_is(expected: str, target: str, service: str = "") -> None:
    deadline = time.monotonic() + 10
    while (found := await health(target, service)) != expected:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


async def call(target: str, milliseconds: int = 0) -> hydrate_pb2.HydratePostsResponse:
    async with channel.connect(target, SERVICE, "toy") as connection:
        request = hydrate_pb2.HydratePostsRequest(viewer_id=milliseconds)
        return await hydrate_pb2_grpc.HydrateServiceStub(connection).HydratePosts(request)


async def exit_code(toy: Any, within: float = 10) -> int:
    return await asyncio.to_thread(toy.process.wait, within)


# --- readiness and liveness -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", ["", NAME])
async def test_a_process_serves_when_it_is_ready_and_while_it_is(
    start_toy: StartToy, tmp_path: Path, service: str
) -> None:
    file = tmp_path / "ready"
    toy = await start_toy(FEED_TOY_READY_FILE=str(file))
    assert await health(toy.target, service) == "NOT_SERVING"
    file.touch()
    await until_health_is("SERVING", toy.target, service)
    file.unlink()
    await until_health_is("NOT_SERVING", toy.target, service)
    file.touch()
    await until_health_is("SERVING", toy.target, service)


async def test_a_process_that_is_not_ready_lives(start_toy: StartToy, tmp_path: Path) -> None:
    toy = await start_toy(FEED_TOY_READY_FILE=str(tmp_path / "never"))
    assert await health(toy.target) == "NOT_SERVING"
    assert await health(toy.target, LIVENESS) == "SERVING"


async def test_a_busy_process_still_tells_its_health(start_toy: StartToy, eventually: Eventually) -> None:
    toy = await start_toy(FEED_GRPC_MAX_CONCURRENT_CALLS="1")
    await until_health_is("SERVING", toy.target)
    going = asyncio.create_task(call(toy.target, 5000))
    await eventually(lambda: toy.has_said("called"))
    assert await health(toy.target) == "SERVING"
    assert await health(toy.target, LIVENESS) == "SERVING"
    going.cancel()


async def test_why_it_is_not_ready_is_logged_once(start_toy: StartToy, tmp_path: Path, eventually: Eventually) -> None:
    file = tmp_path / "ready"
    toy = await start_toy(FEED_TOY_READY_FILE=str(file))
    await eventually(lambda: toy.has_said("not ready"))
    await asyncio.sleep(0.3)
    file.touch()
    await eventually(lambda: toy.has_said("ready"))
    said = [line["message"] for line in toy.lines if "ready" in line["message"]]
    assert said == ["not ready: the file is not there", "ready"]


async def test_a_neighbour_needs_to_have_been_there_once() -> None:
    answers = [Unavailable.of_dependency("graph"), None, Unavailable.of_dependency("graph")]

    async def graph() -> None:
        if (answer := answers.pop(0)) is not None:
            raise answer

    check = once(graph)
    with pytest.raises(Unavailable):
        await check()
    await check()
    await check()
    assert len(answers) == 1


async def test_a_channel_tells_whether_its_service_is_serving(start_toy: StartToy, tmp_path: Path) -> None:
    file = tmp_path / "ready"
    toy = await start_toy(FEED_TOY_READY_FILE=str(file))
    async with channel.connect(toy.target, SERVICE, "toy") as connection:
        with pytest.raises(Unavailable, match="toy: is not ready"):
            await connection.require_serving()
        file.touch()
        await until_health_is("SERVING", toy.target)
        await connection.require_serving()


async def test_the_cause_of_an_absence_is_logged() -> None:
    async def away() -> None:
        raise Unavailable.of_dependency("postgres") from OSError("Connection refused")

    assert await first_problem(away) == "postgres: cannot be reached (Connection refused)"


async def test_a_dependency_that_does_not_answer_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("feedkit.server.READINESS_TIMEOUT_SECONDS", 0.05)
    assert await first_problem(lambda: asyncio.sleep(30)) == "a dependency does not answer"


async def first_problem(check: Callable[[], Awaitable[None]]) -> str:
    """What is logged where `check` fails."""
    stopping, lines = asyncio.Event(), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("feedkit.server")
    logger.addHandler(handler)

    async def report(ready: bool) -> None:
        assert not ready
        stopping.set()

    try:
        await watch_readiness([check], stopping, report)
    finally:
        logger.removeHandler(handler)
    return lines[0].removeprefix("not ready: ")


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stop_drains_first_and_cuts_nobody_off(
    start_toy: StartToy, number: signal.Signals, eventually: Eventually
) -> None:
    toy = await start_toy(FEED_DRAIN_SECONDS="1")
    await until_health_is("SERVING", toy.target)
    going = asyncio.create_task(call(toy.target, 2000))
    await eventually(lambda: toy.has_said("called"))
    toy.process.send_signal(number)
    await until_health_is("NOT_SERVING", toy.target)
    assert (await call(toy.target)).hydrations, "while it drains, a process still serves"
    assert (await going).hydrations
    assert await exit_code(toy) == 0
    assert [line["message"] for line in toy.lines][-2:] == ["stopping", "closed"]


async def test_a_call_that_outlives_the_grace_is_cut_off(start_toy: StartToy, eventually: Eventually) -> None:
    toy = await start_toy(FEED_GRACE_SECONDS="0.2")
    going = asyncio.create_task(call(toy.target, 9000))
    await eventually(lambda: toy.has_said("called"))
    toy.process.send_signal(signal.SIGTERM)
    assert await exit_code(toy, within=3) == 0
    with pytest.raises(Unavailable):
        await going


async def test_a_second_signal_changes_nothing(start_toy: StartToy, eventually: Eventually) -> None:
    toy = await start_toy()
    going = asyncio.create_task(call(toy.target, 700))
    await eventually(lambda: toy.has_said("called"))
    for _ in range(2):
        toy.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.1)
    assert (await going).hydrations
    assert await exit_code(toy) == 0


async def test_an_open_watch_does_not_hold_up_the_end(start_toy: StartToy) -> None:
    toy = await start_toy(FEED_GRACE_SECONDS="30")
    await until_health_is("SERVING", toy.target)
    async with plainly(toy.target) as connection:
        watch = connection.unary_stream(
            "/grpc.health.v1.Health/Watch", response_deserializer=health_pb2.HealthCheckResponse.FromString
        )(b"")
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        toy.process.send_signal(signal.SIGTERM)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert await exit_code(toy, within=3) == 0
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await watch.read()
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_stop_while_it_still_starts_is_heeded(run_toy: RunToy, eventually: Eventually) -> None:
    toy = run_toy(FEED_TOY_OPEN_SECONDS="60")
    await eventually(lambda: toy.has_said("opening"))
    toy.process.send_signal(signal.SIGTERM)
    assert await exit_code(toy, within=3) == 0


async def test_resources_are_closed_in_reverse() -> None:
    closed: list[str] = []

    @asynccontextmanager
    async def resource(name: str) -> AsyncGenerator[str]:
        yield name
        closed.append(name)

    async with AsyncExitStack() as resources:
        process = Process("test", Settings(), resources)
        assert await process.enter(resource("pool")) == "pool"
        await process.enter(resource("consumer"))
    assert closed == ["consumer", "pool"]


async def test_after_a_stop_nothing_more_is_opened() -> None:
    async with AsyncExitStack() as resources:
        process = Process("test", Settings(), resources)
        process.stop()
        await process.until_stopped()
        with pytest.raises(asyncio.CancelledError):
            await process.enter(asynccontextmanager(never)())


async def never() -> AsyncGenerator[None]:
    raise AssertionError("opened")
    yield


# --- the start --------------------------------------------------------------------------------------------------------


async def why_it_does_not_start(toy: Any) -> str:
    """The one line that it logs before it exits with 1."""
    assert await exit_code(toy) == 1
    [line] = [line for line in toy.lines if line["level"] == "ERROR"]
    assert "exc_info" not in line
    return line["message"]


async def test_a_port_in_use_is_named(run_toy: RunToy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        toy = run_toy(FEED_GRPC_LISTEN=address)
        assert await why_it_does_not_start(toy) == f"cannot start: cannot listen on {address}: Address already in use"


async def test_the_port_of_another_server_is_in_use(start_toy: StartToy, run_toy: RunToy) -> None:
    first = await start_toy()
    second = run_toy(FEED_GRPC_LISTEN=first.target)
    assert first.target in await why_it_does_not_start(second)


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("192.0.2.1:50051", "Cannot assign requested address"),
        ("nowhere.invalid:50051", "Name or service not known"),
    ],
)
async def test_an_address_that_is_not_ours_is_told_why(run_toy: RunToy, address: str, why: str) -> None:
    toy = run_toy(FEED_GRPC_LISTEN=address)
    assert await why_it_does_not_start(toy) == f"cannot start: cannot listen on {address}: {why}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("FEED_GRPC_LISTEN", "nonsense"),
        ("FEED_ENV", "staging"),
        ("FEED_LOG_LEVEL", "LOUD"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
    ],
)
async def test_a_wrong_setting_is_named(run_toy: RunToy, variable: str, value: str) -> None:
    toy = run_toy(OTEL_TRACES_EXPORTER="otlp", **{variable: value})
    message = await why_it_does_not_start(toy)
    assert message.startswith(f"cannot start: {'OTEL_EXPORTER_OTLP_' if 'OTEL' in variable else variable}")


async def test_an_unforeseen_error_is_one_line_with_its_traceback(run_toy: RunToy) -> None:
    toy = run_toy(FEED_TOY_CRASH="1")
    assert await exit_code(toy) == 1
    assert toy.lines[-1]["message"] == "stopped by an unforeseen error"
    assert "RuntimeError: the toy is broken" in toy.lines[-1]["exc_info"]


async def test_a_command_runs_and_ends(run_toy: RunToy) -> None:
    toy = run_toy("greet")
    assert await exit_code(toy) == 0
    assert [line["message"] for line in toy.lines] == ["greetings"]


@pytest.mark.parametrize("arguments", [("dance",), ("greet", "everybody")])
async def test_an_unknown_command_is_told_what_there_is(run_toy: RunToy, arguments: tuple[str, ...]) -> None:
    toy = run_toy(*arguments)
    assert await exit_code(toy) == 2
    assert "[greet | twin]" in toy.output


async def test_a_role_is_a_server_with_a_name_and_settings_of_its_own(run_toy: RunToy, eventually: Eventually) -> None:
    assert await why_it_does_not_start(run_toy("twin")) == "cannot start: FEED_TOY_TWIN_NAME: Field required"
    twin = run_toy("twin", FEED_TOY_TWIN_NAME="Romulus")
    await eventually(lambda: twin.has_said("listening"))
    await until_health_is("SERVING", twin.target)
    twin.process.send_signal(signal.SIGTERM)
    assert await exit_code(twin) == 0
    assert {line["process"] for line in twin.lines} == {"toy-twin"}


async def test_reflection_lists_the_services(start_toy: StartToy) -> None:
    toy = await start_toy()
    async with plainly(toy.target) as connection:
        reflect = connection.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )()
        await reflect.write(reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString())
        answer = await reflect.read()
        reflect.cancel()
    listed = {service.name for service in answer.list_services_response.service}
    assert listed == {NAME, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
