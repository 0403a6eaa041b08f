"""What is remembered of authors: for a time, of so many, and nothing of whom nothing is known is remembered too."""

from timeline_service.author_memory import AuthorMemory


class Clock:
    """Seconds, as a test lets them pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_was_read_is_known_for_so_long() -> None:
    clock = Clock()
    memory = AuthorMemory(most=10, seconds=30, clock=clock)
    assert memory.known([7, 8]) == {7: None, 8: None}
    assert memory.remember([7, 8], [b"seven", None]) == {7: b"seven", 8: b""}
    assert memory.known([8, 9, 7]) == {8: b"", 9: None, 7: b"seven"}
    clock.now += 30
    assert memory.known([7, 8]) == {7: None, 8: None}


def test_of_more_authors_than_there_is_room_for_those_read_last_are_remembered() -> None:
    memory = AuthorMemory(most=2, seconds=30, clock=Clock())
    memory.remember([1, 2], [b"one", b"two"])
    memory.remember([1, 3], [b"one again", b"three"])
    assert memory.known([1, 2, 3]) == {1: b"one again", 2: None, 3: b"three"}


def test_for_no_time_nothing_is_remembered() -> None:
    memory = AuthorMemory(most=2, seconds=0, clock=Clock())
    assert memory.remember([1], [b"one"]) == {1: b"one"}
    assert memory.known([1]) == {1: None}
