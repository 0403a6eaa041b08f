"""The limits of request bodies."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from gateway.body_limit import BodyLimit
from gateway.problems import Problem
from starlette.types import Message, Receive, Scope, Send

from gateway import body_limit

LIMIT = 100


class Exchange:
    """A client that sends chunks, and what it saw."""

    def __init__(self, chunks: Iterable[bytes] = ()) -> None:
        self.served: bytes | None = None
        self.sent: list[Message] = []
        self.received = 0
        self._chunks: Iterator[bytes] = iter(chunks)

    async def run(self, method: str = "POST", *headers: tuple[bytes, bytes]) -> None:
        async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
            self.served = (await receive())["body"]

        await BodyLimit(app, LIMIT)(
            {"type": "http", "method": method, "headers": list(headers)}, self._receive, self._send
        )

    async def _receive(self) -> Message:
        chunk = next(self._chunks, None)
        if chunk is None:
            return {"type": "http.disconnect"}
        self.received += len(chunk)
        return {"type": "http.request", "body": chunk, "more_body": chunk != b""}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def document(self) -> Any:
        return json.loads(b"".join(message["body"] for message in self.sent[1:]))


async def test_a_body_in_pieces_arrives_whole() -> None:
    exchange = Exchange([b"a" * 50, b"b" * 50, b""])
    await exchange.run()
    assert exchange.served == b"a" * 50 + b"b" * 50


async def test_a_body_that_says_it_is_too_large_is_refused() -> None:
    exchange = Exchange([b"a" * 101, b""])
    await exchange.run("POST", (b"content-length", b"101"))
    assert (exchange.status, exchange.document["errors"][0]["field"]) == (413, "body")
    assert exchange.served is None


@pytest.mark.parametrize("size", [b"9" * 19, b"9" * 5000])
async def test_a_size_beyond_counting_is_too_large(size: bytes) -> None:
    exchange = Exchange([b"a", b""])
    await exchange.run("POST", (b"content-length", size))
    assert exchange.status == 413


@pytest.mark.parametrize("size", [b"0" * 5000, b"0" * 5000 + b"1"])
async def test_leading_zeros_do_not_make_a_size_larger(size: bytes) -> None:
    exchange = Exchange([b"a", b""])
    await exchange.run("POST", (b"content-length", size))
    assert exchange.served == b"a"


async def test_a_body_that_turns_out_too_large_is_refused() -> None:
    exchange = Exchange([b"a" * 60, b"a" * 60, b""])
    await exchange.run("POST", (b"transfer-encoding", b"chunked"))
    assert exchange.status == 413


async def test_a_reading_method_with_a_body_is_limited_too() -> None:
    exchange = Exchange([b"a" * 101, b""])
    await exchange.run("GET", (b"content-length", b"101"))
    assert exchange.status == 413


async def test_the_rest_of_a_refused_body_is_read_before_the_answer_ends() -> None:
    exchange = Exchange([b"a" * 60] * 1000 + [b""])
    await exchange.run("POST", (b"content-length", b"60000"))
    assert exchange.received == 60_000
    assert exchange.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


async def test_an_endless_body_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "DROPPED_BYTES", 1000)
    exchange = Exchange(iter(lambda: b"a" * 60, None))
    await exchange.run("POST", (b"transfer-encoding", b"chunked"))
    assert exchange.status == 413
    assert exchange.received < 1200


async def test_a_client_that_waits_for_leave_to_send_is_answered_at_once() -> None:
    exchange = Exchange([b"a" * 101, b""])
    await exchange.run("POST", (b"content-length", b"101"), (b"expect", b"100-continue"))
    assert (exchange.status, exchange.received) == (413, 0)


async def test_the_connection_of_a_refused_body_is_closed() -> None:
    exchange = Exchange([b""])
    await exchange.run("POST", (b"content-length", b"101"))
    assert (b"connection", b"close") in exchange.sent[0]["headers"]


async def test_a_client_that_leaves_in_the_middle_is_not_answered() -> None:
    exchange = Exchange([b"a" * 10])
    await exchange.run()
    assert exchange.sent == []
    assert exchange.served is None


async def test_a_body_that_does_not_arrive_in_time_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "READ_SECONDS", 0.01)

    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def unreached(*_: object) -> None:
        raise AssertionError

    with pytest.raises(Problem) as problem:
        await BodyLimit(unreached, LIMIT)({"type": "http", "method": "POST", "headers": []}, never, unreached)
    assert problem.value.status == 408
