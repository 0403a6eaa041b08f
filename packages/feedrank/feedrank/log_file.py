"""The file of a log: lines of JSON, compressed by gzip. The first line is the header:

    {"format": "feedrank-log", "version": 1, "pseudonymised": false,
     "favourites": [[viewer, author], …], "pulled": [author, …]}

Each further line is a record, in the order of their times (`at`, Unix milliseconds):

    {"at": …, "record": "post", "post": …, "author": …, "media": true, "reply": false, "topics": [numbers]}
    {"at": …, "record": "impression", "viewer": …, "post": …, "position": 0, "dwell_ms": 4100, "view": one of VIEWS}
    {"at": …, "record": "engagement", "actor": …, "post": …, "kind": one of ENGAGEMENTS}

There are no names and no texts in it. Who viewed, wrote and did what is there by id, and hashtags are there by their
numbers, from which they can be guessed; a log that leaves the house is written with `dataset.Pseudonyms`.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from feedrank.dataset import ENGAGEMENT, ENGAGEMENTS, IMPRESSION, POST, TOPICS, VIEWS, Log, Records

FORMAT, VERSION = "feedrank-log", 1


class LogError(ValueError):
    """A file is no log, or one that this version cannot read. The message names the file and the line."""


def write(log: Log, path: Path, *, pseudonymised: bool = False) -> None:
    """Write a log to a file, which is there only once it is complete. Raises OSError.

    `pseudonymised` is only said in the header; see Pseudonyms.
    """
    header = {
        "format": FORMAT,
        "version": VERSION,
        "pseudonymised": pseudonymised,
        "favourites": log.favourites.tolist(),
        "pulled": log.pulled.tolist(),
    }
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        with gzip.open(unfinished, "wt", compresslevel=6, encoding="ascii") as lines:
            for row in (header, *_rows(log)):
                lines.write(f"{json.dumps(row, separators=(',', ':'))}\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path) -> Log:
    """Read a log from a file. Raises OSError, and LogError where it is none."""
    posts: list[tuple[Any, ...]] = []
    impressions: list[tuple[Any, ...]] = []
    engagements: list[tuple[Any, ...]] = []
    number = 1
    try:
        with gzip.open(path, "rt", encoding="ascii") as lines:
            header = _header(next(lines, ""))
            for line in lines:
                number += 1
                row = json.loads(line)
                match row["record"]:
                    case "post":
                        posts.append(_post_of(row))
                    case "impression":
                        impressions.append(_impression_of(row))
                    case "engagement":
                        engagements.append(_engagement_of(row))
                    case other:
                        raise ValueError(f"a record {other!r} is not known")
        return Log(
            posts=np.array(posts, POST),
            impressions=np.array(impressions, IMPRESSION),
            engagements=np.array(engagements, ENGAGEMENT),
            favourites=np.array(header["favourites"], np.int64).reshape(-1, 2),
            pulled=np.array(header["pulled"], np.int64),
        )
    except (gzip.BadGzipFile, EOFError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise LogError(f"{path}, line {number}: {_in_words(error)}") from error


def _rows(log: Log) -> Iterator[dict[str, Any]]:
    """The records of a log in the order of their times; what is written comes before what is done at the same time."""
    kinds: Sequence[tuple[Records, Callable[[Any], dict[str, Any]]]] = (
        (log.posts, _post_row),
        (log.impressions, _impression_row),
        (log.engagements, _engagement_row),
    )
    times = np.concatenate([records["at"] for records, _ in kinds])
    which = np.repeat(range(len(kinds)), [len(records) for records, _ in kinds])
    columns: list[Iterable[Any]] = [iter(records.tolist()) for records, _ in kinds]
    for kind in which[np.argsort(times, kind="stable")].tolist():
        yield kinds[kind][1](next(cast("Iterator[Any]", columns[kind])))


def _post_row(row: tuple[Any, ...]) -> dict[str, Any]:
    post, author, at, media, reply, topics = row
    known = [topic for topic in np.asarray(topics).tolist() if topic]
    return {
        "at": at,
        "record": "post",
        "post": post,
        "author": author,
        "media": media,
        "reply": reply,
        "topics": known,
    }


def _impression_row(row: tuple[Any, ...]) -> dict[str, Any]:
    viewer, post, at, position, dwell_ms, ranked = row
    return {
        "at": at,
        "record": "impression",
        "viewer": viewer,
        "post": post,
        "position": position,
        "dwell_ms": dwell_ms,
        "view": VIEWS[ranked],
    }


def _engagement_row(row: tuple[Any, ...]) -> dict[str, Any]:
    actor, post, at, kind = row
    return {"at": at, "record": "engagement", "actor": actor, "post": post, "kind": ENGAGEMENTS[kind]}


def _post_of(row: dict[str, Any]) -> tuple[Any, ...]:
    topics = [*row["topics"], *[0] * TOPICS][:TOPICS]
    return row["post"], row["author"], row["at"], row["media"], row["reply"], topics


def _impression_of(row: dict[str, Any]) -> tuple[Any, ...]:
    ranked = VIEWS.index(row["view"]) == 1
    return row["viewer"], row["post"], row["at"], row["position"], row["dwell_ms"], ranked


def _engagement_of(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["actor"], row["post"], row["at"], ENGAGEMENTS.index(row["kind"])


def _header(line: str) -> dict[str, Any]:
    header = json.loads(line)
    if header.get("format") != FORMAT:
        raise ValueError(f"not a {FORMAT}")
    if header["version"] != VERSION:
        raise ValueError(f"version {header['version']} of the format; {VERSION} is what can be read")
    return header


def _in_words(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
