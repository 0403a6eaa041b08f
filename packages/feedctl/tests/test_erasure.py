"""What a key in Redis holds of somebody who is to be erased."""

import pytest
from feed.post.v1 import post_pb2
from feedctl.erasure import (
    Ties,
    Trace,
    holds_something,
    in_context,
    in_hidden,
    in_timeline,
    is_other_than,
    is_post_of,
    total,
)
from feedkit import feature_keys, keys

ERASED, OTHER = 7, 8
LEASE = keys.lease(bytes(keys.TOKEN_BYTES))
UNREADABLE = b"something else"


def timeline(*authors: int) -> bytes:
    entries = [(number, author) for number, author in enumerate(authors, 1)]
    return keys.encode_entries(entries) + keys.encode_trailer(keys.Trailer(0, 0, bytes(keys.EPOCH_BYTES)))


def context(*followees: int) -> bytes:
    return keys.value(keys.encode_context(keys.Context(followees)))


def hidden(blocked: list[int], muted: list[int]) -> bytes:
    return keys.value(keys.encode_hidden(keys.HiddenAuthors(frozenset(blocked), frozenset(muted), False)))


def post(author: int) -> bytes:
    return keys.value(post_pb2.Post(id=1, author_id=author, content="hello").SerializeToString())


@pytest.mark.parametrize("value", [keys.value(b"something"), UNREADABLE, b"L", b""])
def test_whatever_a_key_holds_is_left(value: bytes) -> None:
    assert holds_something(value)


EMPTY = [hidden([], []), keys.value(keys.encode_context(keys.Context([]))), keys.value(keys.encode_post_list([], 0))]


@pytest.mark.parametrize("value", [None, LEASE, keys.value(b""), *EMPTY])
def test_neither_a_lease_nor_that_there_is_nothing_is_left(value: bytes | None) -> None:
    assert not holds_something(value)


@pytest.mark.parametrize("authors", [(ERASED,), (OTHER, ERASED, OTHER), (ERASED, ERASED)])
def test_a_timeline_names_the_authors_of_its_entries(authors: tuple[int, ...]) -> None:
    assert in_timeline(timeline(*authors), ERASED)


@pytest.mark.parametrize("value", [None, timeline(), timeline(OTHER), UNREADABLE])
def test_other_timelines_do_not_name_them(value: bytes | None) -> None:
    assert not in_timeline(value, ERASED)


def test_a_post_number_is_not_taken_for_an_author() -> None:
    assert not in_timeline(timeline(*[OTHER] * ERASED), ERASED)


def test_a_context_names_followees() -> None:
    assert in_context(context(ERASED, OTHER), ERASED)
    favourite = keys.value(keys.encode_context(keys.Context([OTHER], [ERASED])))
    assert in_context(favourite, ERASED)
    for value in (context(OTHER), context(), keys.value(b"x"), LEASE, None):
        assert not in_context(value, ERASED)


def test_what_is_hidden_names_the_blocked_and_the_muted() -> None:
    assert in_hidden(hidden([ERASED], [OTHER]), ERASED)
    assert in_hidden(hidden([], [ERASED]), ERASED)
    for value in (hidden([OTHER], [OTHER]), hidden([], []), keys.value(b"x"), LEASE, None):
        assert not in_hidden(value, ERASED)


def test_a_feature_key_that_has_ended_is_nothing_that_is_left() -> None:
    ended = [feature_keys.ENDED_AFFINITY, feature_keys.ENDED_SEEN, feature_keys.ENDED_AUTHOR_SIGNALS]
    for value in ended:
        assert not is_other_than(value)(value)
        assert not is_other_than(value)(None)
        assert is_other_than(value)(value + b"more")


def test_a_post_names_its_author() -> None:
    assert is_post_of(post(ERASED), ERASED)
    for value in (post(OTHER), keys.value(b""), keys.value(b"\xff"), LEASE, None):
        assert not is_post_of(value, ERASED)


def test_ties_that_are_known_and_ties_that_are_named_are_joined_each_once() -> None:
    assert Ties([1, 2], [ERASED]).joined(Ties([2], [OTHER, ERASED])) == Ties([2, 1], [ERASED, OTHER])


def test_everything_that_is_left_counts() -> None:
    assert total([]) == 0
    assert total([Trace("graph: follows", "table", 2), Trace("redis: post:v1:*", "key", 1)]) == 3
