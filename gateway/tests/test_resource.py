"""A resource: its methods and the deadline of a request."""

import asyncio
import json

import pytest
from feedkit import deadline
from feedkit.errors import DeadlineExceeded
from gateway.answers import Answer, ok
from gateway.problems import Problem
from gateway.resource import Resource
from starlette.requests import Request
from starlette.types import Message


async def serve(resource: Resource, method: str = "GET") -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await resource({"type": "http", "method": method, "headers": []}, receive, send)
    return sent


async def greet(_request: Request) -> Answer:
    return ok({"seconds": deadline.timeout_for_call(100)})


async def test_what_a_request_calls_inherits_its_deadline() -> None:
    sent = await serve(Resource({"GET": greet}, seconds=3))
    assert 2.5 < json.loads(sent[1]["body"])["seconds"] < 3


async def test_a_request_ends_at_its_deadline() -> None:
    async def dawdle(_request: Request) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(DeadlineExceeded):
        await serve(Resource({"GET": dawdle}, seconds=0.01))


async def test_a_method_that_is_not_there_tells_which_are() -> None:
    with pytest.raises(Problem) as problem:
        await serve(Resource({"GET": greet, "POST": greet}, seconds=3), "DELETE")
    assert problem.value.status == 405
    assert problem.value.headers == [(b"allow", b"GET, HEAD, POST")]


async def test_the_length_of_a_body_is_told_and_that_of_none_is_not() -> None:
    async def nothing(_request: Request) -> Answer:
        return Answer(204)

    resource = Resource({"GET": greet, "DELETE": nothing}, seconds=3)
    with_body, without = await serve(resource), await serve(resource, "DELETE")
    assert dict(with_body[0]["headers"])[b"content-length"] == b"%d" % len(with_body[1]["body"])
    assert b"content-length" not in dict(without[0]["headers"])
