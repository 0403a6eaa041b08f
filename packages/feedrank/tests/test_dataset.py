"""A log comes back from its file as it was, and tells nobody who was who where it is to leave the house."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from feedrank.dataset import (
    ENGAGEMENT,
    HIDE,
    IMPRESSION,
    LIKE,
    POST,
    Log,
    Pseudonyms,
    in_time_order,
)
from feedrank.log_file import LogError, read, write


@pytest.fixture
def log() -> Log:
    return Log(
        posts=np.array([(11, 1, 100, True, False, [5, 6, 0, 0]), (12, 2, 200, False, True, [0, 0, 0, 0])], POST),
        impressions=np.array([(3, 11, 250, 0, 4_000, False), (3, 12, 300, 1, 0, True)], IMPRESSION),
        engagements=np.array([(3, 11, 260, LIKE), (1, 12, 400, HIDE)], ENGAGEMENT),
        favourites=np.array([[3, 1]]),
        pulled=np.array([2]),
    )


def equal(one: Log, other: Log) -> bool:
    names = ("posts", "impressions", "engagements", "favourites", "pulled")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_log_comes_back_from_its_file(log: Log, tmp_path: Path) -> None:
    write(log, tmp_path / "log.gz")
    assert equal(read(tmp_path / "log.gz"), log)
    assert [path.name for path in tmp_path.iterdir()] == ["log.gz"]


def test_an_empty_log_comes_back_too(log: Log, tmp_path: Path) -> None:
    empty = Log(
        posts=log.posts[:0],
        impressions=log.impressions[:0],
        engagements=log.engagements[:0],
        favourites=log.favourites[:0],
        pulled=log.pulled[:0],
    )
    write(empty, tmp_path / "log.gz")
    assert equal(read(tmp_path / "log.gz"), empty)
    assert empty.ends_at_ms == 0


def test_records_are_in_the_order_of_time_behind_the_header(log: Log, tmp_path: Path) -> None:
    write(log, tmp_path / "log.gz")
    lines = gzip.decompress((tmp_path / "log.gz").read_bytes()).splitlines()
    header, *rows = [json.loads(line) for line in lines]
    assert (header["format"], header["version"], header["pseudonymised"]) == ("feedrank-log", 1, False)
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert rows[0] == {
        "at": 100,
        "record": "post",
        "post": 11,
        "author": 1,
        "media": True,
        "reply": False,
        "topics": [5, 6],
    }
    assert rows[-1] == {"at": 400, "record": "engagement", "actor": 1, "post": 12, "kind": "hide"}


def test_pseudonyms_replace_every_id_and_keep_who_is_the_same(log: Log) -> None:
    hidden = Pseudonyms().applied(log)
    assert not set(hidden.posts["author"].tolist()) & {1, 2}
    assert hidden.impressions["viewer"][0] == hidden.engagements["actor"][0] == hidden.favourites[0, 0]
    assert hidden.posts["author"].tolist() == [hidden.favourites[0, 1], hidden.pulled[0]]
    assert hidden.posts["post"].tolist() == hidden.impressions["post"].tolist()
    assert not set(hidden.posts["post"].tolist()) & {11, 12}
    assert (hidden.posts["topics"] != 0).tolist() == (log.posts["topics"] != 0).tolist()
    assert hidden.posts["topics"][0, 0] != 5
    assert hidden.impressions["at"].tolist() == log.impressions["at"].tolist()


def test_pseudonyms_of_two_logs_have_nothing_in_common(log: Log) -> None:
    one, other = Pseudonyms().applied(log), Pseudonyms().applied(log)
    assert not set(one.posts["post"].tolist()) & set(other.posts["post"].tolist())


HEADER = '{"format":"feedrank-log","version":1,"pseudonymised":false,"favourites":[],"pulled":[]}\n'
ENGAGED = '{"at":5,"record":"engagement","actor":1,"post":2,"kind":"like"}\n'


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "line 1"),
        ('{"format":"other"}\n', "line 1: not a feedrank-log"),
        ('{"format":"feedrank-log","version":2}\n', "version 2 of the format; 1 is what can be read"),
        (HEADER + '{"at":5,"record":"song"}\n', "line 2: a record 'song' is not known"),
        (HEADER + ENGAGED + '{"at":6,"record":"engagement","actor":1,"post":2}\n', "line 3: 'kind' is missing"),
        (HEADER + ENGAGED.replace("like", "love"), "line 2"),
        (HEADER + ENGAGED + ENGAGED.replace("5", "4"), "order of time"),
        (HEADER + "{", "line 2"),
    ],
)
def test_what_is_no_log_is_refused_with_the_line(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(lines.encode()))
    with pytest.raises(LogError, match=said):
        read(tmp_path / "log.gz")


def test_what_is_not_compressed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_text(HEADER)
    with pytest.raises(LogError, match=r"log\.gz"):
        read(tmp_path / "log.gz")


def test_a_log_has_to_be_in_the_order_of_time(log: Log) -> None:
    backwards = log.posts[::-1]
    with pytest.raises(ValueError, match="order of time"):
        Log(
            posts=backwards,
            impressions=log.impressions,
            engagements=log.engagements,
            favourites=log.favourites,
            pulled=log.pulled,
        )
    assert np.array_equal(in_time_order(backwards), log.posts)
