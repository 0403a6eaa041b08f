"""What stands in the path, the query and the headers of a request, checked before anything is called.

Every function raises InvalidArgument naming the parameter. Absent and empty are the same everywhere.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from feedkit.cursor import DEFAULT_PAGE_SIZE, MAX_ID, MAX_PAGE_SIZE, Position
from feedkit.errors import InvalidArgument
from starlette.requests import Request

MAX_IDS = 100
"""The most ids that one batch may ask for."""
ID_RULE = "must be an id: a decimal number from 1 to 9223372036854775807 without sign or leading zeros"

MAX_CURSOR_CHARACTERS = 64
RANKED_CURSOR = "r:"
"""What the cursors of ranked feeds begin with."""

Choice = TypeVar("Choice")

_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)


def parse_id(text: str) -> int | None:
    """The id that a text is; None if it is none."""
    if _ID.fullmatch(text) is None:
        return None
    number = int(text)
    return number if number <= MAX_ID else None


def path_id(request: Request) -> int:
    """The id in the path."""
    number = parse_id(request.path_params["id"])
    if number is None:
        raise InvalidArgument.of_field("id", ID_RULE)
    return number


def ids(request: Request) -> list[int]:
    """The ids of a batch, comma-separated: 1 to 100, in the order given, repeated ones included."""
    words = text.split(",") if (text := _query(request, "ids")) else []
    if not 1 <= len(words) <= MAX_IDS:
        raise InvalidArgument.of_field("ids", f"must be 1 to {MAX_IDS} ids, comma-separated; there are {len(words)}")
    numbers = [number for word in words if (number := parse_id(word)) is not None]
    if len(numbers) != len(words):
        raise InvalidArgument.of_field("ids", f"each {ID_RULE}")
    return numbers


def limit(request: Request) -> int:
    """How many items a page may have: 20 by default, and 50 for every larger number, however large."""
    text = _query(request, "limit")
    if not text:
        return DEFAULT_PAGE_SIZE
    # The length decides first: a number of thousands of digits is not worth making.
    digits = text.lstrip("0")
    if _NUMBER.fullmatch(text) is None or not digits:
        raise InvalidArgument.of_field("limit", "must be a whole number of at least 1")
    return MAX_PAGE_SIZE if len(digits) > len(str(MAX_PAGE_SIZE)) else min(int(digits), MAX_PAGE_SIZE)


def cursor(request: Request) -> str:
    """The position, `<created_at_ms>:<post_id>`, after which a page of posts begins; empty for the top."""
    text = _query(request, "cursor")
    Position.parse(text, "cursor")
    return text


def page_token(request: Request) -> str:
    """The cursor of a page of users, whose form is the business of the service that made it."""
    return _query(request, "cursor")


def feed_cursor(request: Request) -> str:
    """The cursor of a page of a home feed: a position, or a place in a ranked order, which only `timeline` can read."""
    text = _query(request, "cursor")
    if not text.startswith(RANKED_CURSOR):
        Position.parse(text, "cursor")
    elif len(text) > MAX_CURSOR_CHARACTERS:
        rule = f"must be a cursor that this call returned, of at most {MAX_CURSOR_CHARACTERS} characters"
        raise InvalidArgument.of_field("cursor", rule, reason="INVALID_PAGE_TOKEN")
    return text


def choice(request: Request, name: str, choices: Mapping[str, Choice], default: Choice) -> Choice:
    """What one of a few words stands for."""
    text = _query(request, name)
    if not text:
        return default
    if text not in choices:
        raise InvalidArgument.of_field(name, one_of(choices))
    return choices[text]


def one_of(words: Mapping[str, object]) -> str:
    """The rule that something is one of a few words."""
    return f"must be {' or '.join(words)}"


def header(request: Request, name: str) -> str | None:
    """A header that may be sent once at most; None where it is absent."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise InvalidArgument.of_field(name, "must not be repeated")
    return values[0] if values else None


def _query(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise InvalidArgument.of_field(name, "must not be repeated")
    return values[0] if values else ""
