"""A refused event holds back its key for a bounded time, and is tried again meanwhile."""

from typing import NamedTuple

import pytest
from feedkit.outbox_refusals import LEAST_ATTEMPTS, Refusals


class Event(NamedTuple):
    id: int
    key: str


FIRST, SECOND, OTHER = Event(1, "ann"), Event(2, "ann"), Event(3, "bob")


@pytest.fixture
def refusals() -> Refusals[Event]:
    return Refusals(patience_seconds=10, retry_seconds=1)


def test_nobody_is_held_back_at_first(refusals: Refusals[Event]) -> None:
    assert refusals.keys == []
    assert refusals.take_due(100) == []
    assert refusals.pause(100) is None


def test_a_key_is_held_back_until_its_last_refused_event_is_forgotten(refusals: Refusals[Event]) -> None:
    refusals.note([SECOND, FIRST, OTHER], 100)
    assert refusals.keys == ["ann", "bob"]
    refusals.forget(FIRST)
    assert refusals.keys == ["ann", "bob"]
    refusals.forget(SECOND)
    assert refusals.keys == ["bob"]


def test_refused_events_are_tried_again_at_intervals_oldest_first(refusals: Refusals[Event]) -> None:
    refusals.note([SECOND, FIRST], 100)
    assert refusals.take_due(100.9) == []
    assert refusals.pause(100.9) == pytest.approx(0.1)
    assert refusals.take_due(101) == [FIRST, SECOND]
    assert refusals.take_due(101.5) == []
    assert refusals.pause(103) == 0


def test_an_event_is_given_up_after_its_own_time(refusals: Refusals[Event]) -> None:
    refusals.note([FIRST], 100)
    refusals.note([FIRST, OTHER], 105)
    for now in (106, 107, 108, 109.9):
        assert not refusals.note_again(FIRST, now)
        assert not refusals.note_again(OTHER, now)
    assert refusals.note_again(FIRST, 110)
    assert not refusals.note_again(OTHER, 114.9)
    assert refusals.note_again(OTHER, 115)


def test_an_event_that_was_hardly_ever_sent_alone_is_not_given_up(refusals: Refusals[Event]) -> None:
    refusals.note([FIRST], 100)
    assert [refusals.note_again(FIRST, 200) for _ in range(LEAST_ATTEMPTS)] == [False, False, True]
