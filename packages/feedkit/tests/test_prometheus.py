"""Whole processes answer Prometheus where they are told to, and no scrape costs them a request or their end."""

import asyncio
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import grpc
import grpc.aio
import pytest
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc

pytestmark = pytest.mark.integration

METHOD = "feed.hydrate.v1.HydrateService/HydratePosts"
SCRAPED = {
    "OTEL_METRICS_EXPORTER": "prometheus",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
    "OTEL_EXPORTER_PROMETHEUS_PORT": "0",
}
StartToy = Callable[..., Awaitable[Any]]


def address(toy: Any) -> str:
    """Where the toy serves its metrics."""
    [told] = [line["address"] for line in toy.lines if line["message"] == "metrics are served"]
    return told


async def scrape(toy: Any, accept: str = "*/*") -> str:
    """What the toy tells."""

    def get() -> str:
        connection = HTTPConnection(address(toy), timeout=5)
        with closing(connection):
            connection.request("GET", "/metrics", headers={"Accept": accept})
            return connection.getresponse().read().decode()

    return await asyncio.to_thread(get)


async def call(toy: Any, *, post_id: int = 1) -> None:
    async with grpc.aio.insecure_channel(toy.target) as connection:
        stub: Any = hydrate_pb2_grpc.HydrateServiceStub(connection)
        await stub.HydratePosts(hydrate_pb2.HydratePostsRequest(post_ids=[post_id]))


async def stop(toy: Any) -> float:
    """Stop a process in order; how many seconds it took."""
    began = time.monotonic()
    toy.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(toy.process.wait, 20) == 0, toy.output
    return time.monotonic() - began


async def test_a_scrape_tells_what_is_counted_and_how_calls_went(start_toy: StartToy) -> None:
    toy = await start_toy(**SCRAPED)
    for _ in range(3):
        await call(toy)
    with pytest.raises(grpc.aio.AioRpcError):
        await call(toy, post_id=13)
    told = (await scrape(toy)).splitlines()
    assert 'feed_toy_calls_total{viewer="0"} 4.0' in told
    of = f'rpc_method="{METHOD}",rpc_response_status_code="%s",rpc_system_name="grpc"'
    assert f"rpc_server_call_duration_seconds_count{{{of % 'OK'}}} 3.0" in told
    assert f"rpc_server_call_duration_seconds_count{{{of % 'INTERNAL'}}} 1.0" in told
    assert any(line.startswith("process_resident_memory_bytes ") for line in told)
    assert any(line.startswith("target_info{") and 'service_name="toy"' in line for line in told)
    assert await stop(toy) < 3


async def test_whoever_asks_for_openmetrics_gets_it(start_toy: StartToy) -> None:
    toy = await start_toy(**SCRAPED)
    assert (await scrape(toy, "application/openmetrics-text; version=1.0.0")).endswith("# EOF\n")


async def test_a_scraper_that_stays_connected_does_not_delay_the_end(start_toy: StartToy) -> None:
    toy = await start_toy(**SCRAPED)
    host, _, port = address(toy).rpartition(":")
    with socket.create_connection((host, int(port))) as silent:
        silent.send(b"GET /metrics HTTP/1.1\r\n")
        await call(toy)
        assert await stop(toy) < 3


async def test_metrics_may_be_scraped_and_pushed(start_toy: StartToy, capfd: pytest.CaptureFixture[str]) -> None:
    toy = await start_toy(**{**SCRAPED, "OTEL_METRICS_EXPORTER": "console,prometheus"})
    await call(toy)
    assert "feed_toy_calls_total" in await scrape(toy)
    await stop(toy)
    assert "feed.toy.calls" in capfd.readouterr().out


async def test_a_port_in_use_is_told_in_one_line(run_toy: Callable[..., Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        toy = run_toy(**{**SCRAPED, "OTEL_EXPORTER_PROMETHEUS_PORT": port})
        assert await asyncio.to_thread(toy.process.wait, 20) == 1
    [line] = toy.lines
    assert line["message"] == (
        "cannot start: OTEL_EXPORTER_PROMETHEUS_HOST, OTEL_EXPORTER_PROMETHEUS_PORT: "
        f"cannot listen on 127.0.0.1:{port}: Address already in use"
    )


async def test_who_wants_no_metrics_serves_none(start_toy: StartToy) -> None:
    toy = await start_toy(**{**SCRAPED, "OTEL_METRICS_EXPORTER": "none"})
    assert not toy.has_said("metrics are served")
