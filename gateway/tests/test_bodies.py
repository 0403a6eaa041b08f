"""JSON bodies into types."""

from typing import Annotated

import msgspec
import pytest
from feedkit.cursor import MAX_ID
from gateway.problems import Problem
from starlette.requests import Request
from starlette.types import Message

from gateway import bodies


class Part(msgspec.Struct, rename="camel"):
    alt_text: str
    width: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0


class Whole(msgspec.Struct):
    content: str
    media: list[Part] = []


DECODER = msgspec.json.Decoder(Whole)


async def decode(body: bytes, *headers: tuple[bytes, bytes]) -> Whole:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return await bodies.decode(Request({"type": "http", "headers": list(headers)}, receive), DECODER)


async def test_unknown_members_are_ignored() -> None:
    assert await decode(b'{"content": "hi", "colour": {"a": [1e999]}}') == Whole("hi")


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"application/json; charset=utf-8",
        b'Application/JSON;charset="UTF-8"',
        b"application/merge-patch+json",
        b"",
    ],
)
async def test_json_may_be_called_so_in_several_ways(content_type: bytes) -> None:
    assert await decode(b'{"content": "hi"}', (b"content-type", content_type)) == Whole("hi")


@pytest.mark.parametrize(
    "header",
    [
        (b"content-type", b"text/plain"),
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"content-type", b"application/json; charset=latin-1"),
        (b"content-type", b"application/jsonp"),
        (b"content-type", b"\xff"),
        (b"content-encoding", b"gzip"),
    ],
)
async def test_what_says_it_is_no_json_is_not_read(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(Problem) as problem:
        await decode(b'{"content": "hi"}', header)
    assert problem.value.status == 415


@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        (b"", "body", "must be JSON; it is empty"),
        (b"[]", "body", "expected object, got array"),
        (b"{}", "content", "is required"),
        (b'{"content": 1}', "content", "expected str, got int"),
        (b'{"content": null}', "content", "expected str, got null"),
        (b'{"content": "", "media": {}}', "media", "expected array, got object"),
        (b'{"content": "", "media": [{"altText": ""}, {}]}', "media[1].altText", "is required"),
        (b'{"content": "", "media": [{"altText": "", "width": 1.5}]}', "media[0].width", "expected int, got float"),
        (b'{"content": "", "media": [{"altText": "", "width": 11}]}', "media[0].width", "expected int <= 10"),
        (b'{"content": "\xff"}', "body", "must be UTF-8; byte 13 is not"),
        (b'{"content": "", "ignored": "\xff"}', "body", "must be UTF-8; byte 28 is not"),
        (b'{"content": "", "ignored": ' + b"[" * 100_000, "body", "is nested too deeply"),
    ],
)
async def test_the_member_at_fault_is_named(body: bytes, field: str, rule: str) -> None:
    with pytest.raises(Problem) as problem:
        await decode(body)
    assert problem.value.status == 400
    assert problem.value.violations == [(field, rule)]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xef\xbb\xbf{}",
        b'{"content": "hi"} {}',
        b"{'content': 'hi'}",
        b'{"content": "\\ud800"}',
        b'{"content": "\\udc00\\ud800"}',
        b'{"content": "a\nb"}',
        b"\x00",
        b'{"content": "", "media": [{"altText": "", "width": ' + b"9" * 100_000 + b"}]}",
        b'{"content": "", "media": [{"altText": "", "width": 1e999}]}',
    ],
)
async def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Problem) as problem:
        await decode(body)
    assert problem.value.status == 400


@pytest.mark.parametrize(("value", "number"), [("1", 1), (1, 1), (str(MAX_ID), MAX_ID), (MAX_ID, MAX_ID)])
def test_an_id_is_a_string_or_an_exact_number(value: str | int, number: int) -> None:
    assert bodies.id_of(value, "replyTo") == number


@pytest.mark.parametrize("value", ["", "0", "01", "-1", "x", "1.0", "9" * 10_000, 0, -1, MAX_ID + 1])
def test_what_is_no_id_is_named(value: str | int) -> None:
    with pytest.raises(Problem) as problem:
        bodies.id_of(value, "replyTo")
    assert [field for field, _ in problem.value.violations] == ["replyTo"]


def test_one_of_a_few_words_is_what_it_stands_for_and_no_other() -> None:
    assert bodies.choice_of("b", {"a": 1, "b": 2}, "kind") == 2
    with pytest.raises(Problem) as problem:
        bodies.choice_of("c", {"a": 1, "b": 2}, "kind")
    assert problem.value.violations == [("kind", "must be a or b")]
