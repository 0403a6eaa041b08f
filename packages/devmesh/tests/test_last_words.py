import pytest
from devmesh.child import ending, last_words


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ('{"level": "info", "message": "hello"}\n', "hello"),
        ('{"level": "info"}\n', '{"level": "info"}'),
        ('["message"]\n', '["message"]'),
        ("LOG:  starting\nFATAL:  lock file exists\nLOG:  database system is shut down\n", "FATAL:  lock file exists"),
        ('{"level": "CRITICAL", "message": "no database"}\n{"level": "info", "message": "bye"}\n', "no database"),
        (
            "WARNING:  could not bind IPv4 address: Address already in use\nFATAL:  no sockets\n",
            "WARNING:  could not bind IPv4 address: Address already in use",
        ),
    ],
)
def test_the_line_that_tells_why(log: str, words: str) -> None:
    assert last_words(log) == words


def test_an_old_complaint_is_not_the_cause() -> None:
    assert last_words("ERROR: long ago\n" + "fine\n" * 100) == "fine"


def test_endings_in_words() -> None:
    assert ending(1) == "ended with exit code 1"
    assert ending(-9) == "was killed by SIGKILL"
