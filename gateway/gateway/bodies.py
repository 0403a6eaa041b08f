"""JSON bodies into the types that the routes declare."""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, TypeVar

import msgspec
from feedkit.cursor import MAX_ID
from feedkit.errors import FieldViolation
from starlette.requests import Request

from gateway.parameters import ID_RULE, header, one_of, parse_id
from gateway.problems import UNSUPPORTED_MEDIA_TYPE, Problem, malformed_body

T = TypeVar("T")

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""What the contract's type can hold; what it may hold is said by the contract's rules."""
Id = str | int
"""Ids in bodies are strings; exact numbers are understood too."""

_JSON_TYPE = re.compile(
    r'application/(?:json|[\w.+-]+\+json)\s*(?:;\s*charset="?utf-8"?\s*)?', re.ASCII | re.IGNORECASE
)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


async def decode(request: Request, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as `decoder`'s type. Unknown members are ignored.

    Raises Problem: 415 for a body that says it is no JSON, 400 naming the member at fault otherwise.
    """
    _check_type(request)
    body = await request.body()
    if not body:
        raise malformed_body("must be JSON; it is empty")
    try:
        # The decoder does not look at the bytes of members that it skips.
        body.decode()
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise malformed_body(f"must be UTF-8; byte {error.start} is not") from None
    except RecursionError:
        raise malformed_body("is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise _wrong_type(str(error)) from None
    except msgspec.DecodeError as error:
        raise malformed_body(f"must be JSON: {error}") from None


def id_of(value: Id, field: str) -> int:
    """The id that a member is. Raises Problem naming the member."""
    number = parse_id(value) if isinstance(value, str) else value
    if number is None or not 1 <= number <= MAX_ID:
        raise malformed_body(ID_RULE, field)
    return number


def choice_of(value: str, choices: Mapping[str, T], field: str) -> T:
    """What one of a few words stands for. Raises Problem naming the member."""
    if value not in choices:
        raise malformed_body(one_of(choices), field)
    return choices[value]


def _check_type(request: Request) -> None:
    content_type = header(request, "Content-Type")
    if content_type and _JSON_TYPE.fullmatch(content_type.strip()) is None:
        raise _unsupported(
            "Content-Type", "must be application/json, in UTF-8", accept=(b"accept", b"application/json")
        )
    encoding = header(request, "Content-Encoding")
    if encoding and encoding.strip().lower() != "identity":
        raise _unsupported("Content-Encoding", "must be absent", accept=(b"accept-encoding", b"identity"))


def _unsupported(name: str, rule: str, accept: tuple[bytes, bytes]) -> Problem:
    return Problem(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        UNSUPPORTED_MEDIA_TYPE,
        f"{name}: {rule}",
        violations=[FieldViolation(name, rule)],
        headers=[accept],
    )


def _wrong_type(message: str) -> Problem:
    # msgspec says: Expected `int`, got `str` - at `$.media[0].width`
    rule, _, place = message.partition(" - at ")
    path = place.strip("`$").lstrip(".")
    if (missing := _MISSING.fullmatch(rule)) is not None:
        path = f"{path}.{missing['name']}" if path else missing["name"]
        rule = "is required"
    rule = rule.replace("`", "")
    return malformed_body(rule[0].lower() + rule[1:], path or "body")
