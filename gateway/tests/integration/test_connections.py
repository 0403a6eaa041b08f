"""What a connection is refused for before there is a request on it: bytes on real sockets, to the real process."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pytest
from devmesh.ports import free_ports

pytestmark = pytest.mark.integration

HEAD_BYTES = 4096
HEAD_SECONDS = 1.0
ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /api/users HTTP/1.1\r\nHost: x\r\n"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> Any:
        return json.loads(self.body)


class Connection:
    """A client that writes what it likes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._stream = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        version, status, _ = self._stream.readline().split(b" ", 2)
        assert version == b"HTTP/1.1"
        lines = iter(self._stream.readline, b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.decode().partition(":") for line in lines)}
        return Answer(int(status), headers, self._stream.read(int(headers["content-length"])))

    def is_ended(self) -> bool:
        """Whether the server has ended it, without another word; waits for that."""
        return self._stream.read(1) == b""

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


@contextmanager
def listening(**variables: str) -> Generator[int]:
    (port,) = free_ports(1)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FEED_")}
    targets = {f"FEED_{name}_TARGET": "127.0.0.1:1" for name in ("POST", "GRAPH", "TIMELINE", "HYDRATE")}
    settings = {"FEED_ENV": "development", "FEED_AUTH_MODE": "dev", "FEED_HTTP_LISTEN": f"127.0.0.1:{port}"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gateway"],
        env={**inherited, **targets, **settings, **variables},
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + 15
        while not accepts(port):
            assert time.monotonic() < end, "not in time"
            time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.wait()


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    """Of a gateway with narrow limits."""
    limits = {"FEED_HTTP_MAX_HEAD_BYTES": str(HEAD_BYTES), "FEED_HTTP_HEAD_SECONDS": str(HEAD_SECONDS)}
    with listening(**limits) as port:
        yield port


@pytest.fixture
def connection(port: int) -> Generator[Connection]:
    with closing(Connection(port)) as connection:
        yield connection


def check_refused(connection: Connection, status: int, reason: str) -> Answer:
    """It has the shape of every other error, and is the last word on its connection."""
    answer = connection.answer()
    assert (answer.status, answer.problem["status"], answer.problem["reason"]) == (status, status, reason)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "date" in answer.headers
    assert len(answer.problem["traceId"]) == 32
    assert answer.problem["traceId"].strip("0")
    assert connection.is_ended()
    return answer


def padded(size: int) -> bytes:
    """A request with a head of that many bytes."""
    return ASK + b"X-A: " + b"a" * (size - len(ASK) - len(b"X-A: \r\n\r\n")) + b"\r\n\r\n"


class TestLongHeads:
    def test_as_long_as_is_allowed_is_served(self, connection: Connection) -> None:
        connection.send(padded(HEAD_BYTES))
        assert connection.answer().status == 200

    def test_one_byte_more_is_refused(self, connection: Connection) -> None:
        connection.send(padded(HEAD_BYTES + 1))
        answer = check_refused(connection, 431, "MESSAGE_TOO_LARGE")
        assert answer.problem["errors"] == [
            {"field": "headers", "rule": f"must be at most {HEAD_BYTES} bytes, with the request line"}
        ]

    def test_in_small_pieces_is_refused_too(self, connection: Connection) -> None:
        head = padded(HEAD_BYTES + 1)
        for place in range(0, len(head), 512):
            connection.send(head[place : place + 512])
        check_refused(connection, 431, "MESSAGE_TOO_LARGE")

    def test_many_short_headers_are_refused(self, connection: Connection) -> None:
        connection.send(ASK + b"".join(b"X-%d: a\r\n" % number for number in range(10_000)))
        check_refused(connection, 431, "MESSAGE_TOO_LARGE")

    def test_whoever_sends_megabytes_before_reading_sees_the_answer(self, connection: Connection) -> None:
        connection.send(ASK + b"X-A: " + b"a" * 8_000_000)
        check_refused(connection, 431, "MESSAGE_TOO_LARGE")

    def test_whoever_never_ends_delays_nobody_and_is_cut_off(self, port: int, connection: Connection) -> None:
        connection.send(ASK + b"X-A: ")
        slowest = 0.0
        with pytest.raises((BrokenPipeError, ConnectionResetError)), closing(Connection(port)) as other:
            for _ in range(300):
                connection.send(b"a" * 1_000_000)
                start = time.monotonic()
                other.send(ASK + b"\r\n")
                assert other.answer().status == 200
                slowest = max(slowest, time.monotonic() - start)
        assert slowest < 1

    def test_mostly_url_is_too_long_a_url(self, connection: Connection) -> None:
        connection.send(b"GET /" + b"a" * HEAD_BYTES + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        check_refused(connection, 414, "MALFORMED_REQUEST")

    def test_a_url_that_heads_have_room_for_and_the_parser_has_not_is_too_long(self) -> None:
        with listening(FEED_HTTP_MAX_HEAD_BYTES="100000") as port, closing(Connection(port)) as connection:
            connection.send(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            check_refused(connection, 414, "MALFORMED_REQUEST")

    def test_trailers_that_do_not_end_are_refused(self, connection: Connection) -> None:
        connection.send(POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-A: " + b"a" * 100_000)
        check_refused(connection, 431, "MESSAGE_TOO_LARGE")

    def test_many_requests_at_once_are_not_a_long_head(self, connection: Connection) -> None:
        connection.send((ASK + b"\r\n") * 1000)
        assert {connection.answer().status for _ in range(1000)} == {200}

    def test_a_long_body_is_not_a_long_head(self, connection: Connection) -> None:
        connection.send(POST + b"Content-Length: 500000\r\n\r\n" + b" " * 500_000 + ASK + b"\r\n")
        assert connection.answer().problem["reason"] == "MALFORMED_BODY"
        assert connection.answer().status == 200

    def test_every_request_of_a_connection_has_the_whole_length_to_itself(self, connection: Connection) -> None:
        for _ in range(5):
            connection.send(padded(HEAD_BYTES))
            assert connection.answer().status == 200


class TestSlowHeads:
    def test_whoever_says_nothing_is_left_without_a_word(self, connection: Connection) -> None:
        start = time.monotonic()
        assert connection.is_ended()
        assert HEAD_SECONDS * 0.9 < time.monotonic() - start < HEAD_SECONDS + 3

    def test_half_a_head_is_a_timeout(self, connection: Connection) -> None:
        connection.send(ASK)
        check_refused(connection, 408, "REQUEST_TIMEOUT")

    def test_drop_by_drop_is_no_way_to_stay(self, connection: Connection) -> None:
        start = time.monotonic()
        connection.socket.settimeout(0.1)
        connection.send(ASK)
        while time.monotonic() - start < HEAD_SECONDS + 5:
            connection.send(b"X-A: b\r\n")
            try:
                if connection.socket.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
        connection.socket.settimeout(10)
        assert time.monotonic() - start < HEAD_SECONDS + 3
        assert connection.socket.recv(65536).startswith(b"HTTP/1.1 408 ")

    def test_half_a_second_head_is_a_timeout_after_the_first_answer(self, connection: Connection) -> None:
        connection.send(ASK + b"\r\n")
        assert connection.answer().status == 200
        connection.send(ASK)
        check_refused(connection, 408, "REQUEST_TIMEOUT")

    def test_whoever_is_quiet_after_an_answer_may_stay(self, connection: Connection) -> None:
        connection.send(ASK + b"\r\n")
        assert connection.answer().status == 200
        time.sleep(HEAD_SECONDS * 1.3)
        connection.send(ASK + b"\r\n")
        assert connection.answer().status == 200

    def test_a_body_may_take_longer_than_a_head(self, connection: Connection) -> None:
        connection.send(POST + b"Content-Length: 2\r\n\r\n{")
        time.sleep(HEAD_SECONDS * 1.3)
        connection.send(b"}")
        assert connection.answer().problem["reason"] == "MALFORMED_BODY"


CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "complaint"),
    [
        (b"GET /\xff HTTP/1.1\r\n\r\n", "Invalid char in url path"),
        (b"GET /?\xff HTTP/1.1\r\n\r\n", "Invalid char in url query"),
        (b"GET /\x00 HTTP/1.1\r\n\r\n", "Invalid char in url path"),
        (b"GET http:///x HTTP/1.1\r\n\r\n", "Invalid url"),
        (b"get / HTTP/1.1\r\n\r\n", "Invalid method encountered"),
        (b"FOO / HTTP/1.1\r\n\r\n", "Invalid method encountered"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00", "Invalid method encountered"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 is not spoken here"),
        (b"GET / HTTP/3.0\r\n\r\n", "Invalid HTTP version"),
        (ASK + b"X-A: \x00b\r\n\r\n", "Invalid header value char"),
        (ASK + b"X A: b\r\n\r\n", "Invalid header token"),
        (POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345", "Duplicate Content-Length"),
        (POST + b"Content-Length: -1\r\n\r\n", "Invalid character in Content-Length"),
        (
            POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "Transfer-Encoding can't be present with Content-Length",
        ),
        (CHUNKED + b"zz\r\nxx\r\n", "Invalid character in chunk size"),
        (CHUNKED + b"1\r\n{\r\nzz\r\nxx\r\n", "Invalid character in chunk size"),
    ],
)
def test_what_is_no_http_is_told_what_is_wrong_with_it(
    connection: Connection, request_bytes: bytes, complaint: str
) -> None:
    connection.send(request_bytes)
    answer = check_refused(connection, 400, "MALFORMED_REQUEST")
    assert answer.problem["detail"] == f"this is not HTTP/1.1: {complaint}"


@pytest.mark.parametrize("digits", [19, 30, 4000])
def test_a_body_of_an_unspeakable_size_is_too_large(connection: Connection, digits: int) -> None:
    connection.send(POST + b"Content-Length: " + b"9" * digits + b"\r\n\r\n{}")
    connection.socket.shutdown(socket.SHUT_WR)
    answer = connection.answer()
    assert (answer.status, answer.problem["reason"]) == (413, "MESSAGE_TOO_LARGE")


def test_a_chunk_of_an_unspeakable_size_is_too_large(connection: Connection) -> None:
    connection.send(CHUNKED + b"f" * 17 + b"\r\n")
    check_refused(connection, 413, "MESSAGE_TOO_LARGE")


def test_requests_before_what_is_no_http_are_answered_in_their_order_and_end_the_connection(
    connection: Connection,
) -> None:
    users = b"GET /api/users/1 HTTP/1.1\r\nHost: x\r\n\r\n"
    connection.send(users + ASK + b"\r\n" + b"\x16\x03\x01")
    assert [connection.answer().status for _ in range(2)] == [503, 200]
    assert connection.is_ended()


def test_a_body_that_is_no_http_waits_for_the_answers_before_its_own(connection: Connection) -> None:
    connection.send(b"GET /api/users/1 HTTP/1.1\r\nHost: x\r\n\r\n" + CHUNKED + b"zz\r\n")
    assert connection.answer().status == 503
    check_refused(connection, 400, "MALFORMED_REQUEST")


def test_what_follows_a_request_for_an_upgrade_is_not_taken_for_a_request(connection: Connection) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"
    connection.send(POST + upgrade + b"Content-Length: 100\r\n\r\n" + ASK + b"\r\n")
    connection.send(ASK + b"\r\n")
    answer = connection.answer()
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert connection.is_ended()


def test_trailers_are_not_headers(connection: Connection) -> None:
    connection.send(
        b"PUT /api/following/2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-User-Id: 1\r\n\r\n"
    )
    assert connection.answer().problem["reason"] == "UNAUTHENTICATED"
