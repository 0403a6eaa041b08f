"""The life of the process, with nothing behind it, and what happens when something behind it is away."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx
import pytest
from devmesh.mesh import Mesh
from devmesh.ports import free_ports

pytestmark = pytest.mark.integration


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FEED_")}
    # A port that nobody listens on.
    targets = {f"FEED_{name}_TARGET": "127.0.0.1:1" for name in ("POST", "GRAPH", "TIMELINE", "HYDRATE")}
    return {**inherited, **targets, "FEED_ENV": "development", "FEED_AUTH_MODE": "dev", **variables}


@contextmanager
def gateway(**variables: str) -> Generator[tuple[subprocess.Popen[str], httpx.Client]]:
    """The process, listening, and a client of it."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gateway"],
        env=environment(FEED_HTTP_LISTEN=f"127.0.0.1:{port}", **variables),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False) as client:
            eventually(lambda: answers(client))
            yield process, client
    finally:
        process.kill()
        process.communicate()


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.TransportError:
        return False


def eventually(condition: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.02)


def test_it_lives_but_is_not_ready_with_nothing_behind_it() -> None:
    with gateway() as (_, client):
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503


def test_asked_to_stop_it_says_not_ready_while_it_still_serves_then_exits_0() -> None:
    with gateway(FEED_DRAIN_SECONDS="1") as (process, client):
        process.send_signal(signal.SIGTERM)
        eventually(lambda: client.get("/healthz").headers.get("connection") == "close")
        assert client.get("/readyz").status_code == 503
        assert process.wait(10) == 0


def test_a_request_under_way_is_finished_before_the_end() -> None:
    # A service that never says anything, so that the request is under way until it has taken too long.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        graph = f"127.0.0.1:{silent.getsockname()[1]}"
        variables = {"FEED_DRAIN_SECONDS": "0", "FEED_GRAPH_TARGET": graph, "FEED_REQUEST_SECONDS": "1"}
        with gateway(**variables) as (process, client), connected(client) as connection:
            connection.sendall(b"GET /api/users/1 HTTP/1.1\r\nHost: x\r\n\r\n")
            client.get("/healthz")
            process.send_signal(signal.SIGTERM)
            assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")
            assert process.wait(10) == 0


def test_a_request_that_is_not_complete_is_not_waited_for() -> None:
    with gateway(FEED_DRAIN_SECONDS="0", FEED_GRACE_SECONDS="30") as (process, client), connected(client) as connection:
        connection.sendall(b"POST /api/users HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        client.get("/healthz")
        process.send_signal(signal.SIGTERM)
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the request can be sent again" in answer
        assert process.wait(5) == 0


@contextmanager
def connected(client: httpx.Client) -> Generator[socket.socket]:
    address = (client.base_url.host, client.base_url.port)
    with socket.create_connection(address, timeout=10) as connection:
        yield connection


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"FEED_ENV": "production"}, "FEED_AUTH_MODE=dev"),
        ({"FEED_AUTH_MODE": "oauth"}, "FEED_AUTH_MODE"),
        ({"FEED_HTTP_LISTEN": "127.0.0.1:99999"}, "FEED_HTTP_LISTEN"),
        ({"FEED_HTTP_LISTEN": "8080"}, "FEED_HTTP_LISTEN"),
        ({"FEED_REQUEST_SECONDS": "0"}, "FEED_REQUEST_SECONDS"),
    ],
)
def test_settings_that_cannot_be_are_told_in_one_line(variables: dict[str, str], complaint: str) -> None:
    check_refused_start(environment(**variables), complaint)


def test_a_port_in_use_is_told_in_one_line() -> None:
    with gateway() as (_, client):
        address = f"{client.base_url.host}:{client.base_url.port}"
        check_refused_start(environment(FEED_HTTP_LISTEN=address), f"cannot listen on {address}")


def check_refused_start(variables: dict[str, str], complaint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "gateway"], env=variables, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if '"ERROR"' in line]
    assert complaint in line
    assert "Traceback" not in done.stderr


class TestAServiceAway:
    """What a client sees while one of the services is down, and after it has come back."""

    @pytest.fixture
    def without_timeline(self, mesh: Mesh) -> Generator[httpx.Client]:
        mesh.kill("timeline")
        try:
            with httpx.Client(base_url=mesh.addresses.gateway, timeout=10, trust_env=False) as client:
                yield client
        finally:
            mesh.restart("timeline")
            mesh.wait_ready("gateway")

    def test_what_needs_it_is_unavailable_and_says_when_to_come_back(self, without_timeline: httpx.Client) -> None:
        answer = without_timeline.get("/api/feed", headers={"X-User-Id": "1"})
        assert (answer.status_code, answer.json()["reason"]) == (503, "DEPENDENCY_UNAVAILABLE")
        assert answer.headers["retry-after"] == "1"

    def test_what_does_not_need_it_is_served(self, without_timeline: httpx.Client) -> None:
        assert without_timeline.post("/api/users", json={"name": "Ada"}).status_code == 201

    def test_the_gateway_stays_ready_so_that_it_can_say_so(self, without_timeline: httpx.Client) -> None:
        without_timeline.get("/api/feed", headers={"X-User-Id": "1"})
        assert without_timeline.get("/readyz").status_code == 200
