"""What `feedctl rank` reads of a mesh: the log of its latest days, straight from PostgreSQL.

It is read by cursors in transactions that see one moment, so that a busy mesh neither waits nor shows halves. Of what was
taken back there is no trace in the tables: a like that is gone was none. Topics are told by `post`, because they are made
of texts, which are not read here.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import asyncpg
import grpc.aio
import numpy as np
from feed.post.v1 import post_pb2
from feed.post.v1 import post_pb2_grpc as _post_grpc
from feedkit.cursor import EPOCH_MS, TIME_SHIFT, first_id_at
from feedrank import dataset
from feedrank.dataset import Log, Records, in_time_order
from numpy.typing import NDArray

from feedctl.targets import Targets, TargetsError

if TYPE_CHECKING:
    from feed.post.v1.post_pb2_grpc import PostServiceAsyncStub

post_grpc = cast("Any", _post_grpc)

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

DAY_MS = 86_400_000
CONNECT_SECONDS = 10.0
TRAITS_SECONDS = 30.0
POSTS_AT_ONCE = 1_000
ROWS_AT_ONCE = 5_000

_MS = "(extract(epoch FROM at) * 1000)::bigint"
_POST_MS = f"((id >> {TIME_SHIFT}) + {EPOCH_MS})"
_SINCE = "to_timestamp($1::bigint / 1000.0)"

_IMPRESSIONS = f"""
SELECT viewer_id, post_id, {_MS}, position, dwell_ms, view = 2 FROM impressions
WHERE day >= ({_SINCE} AT TIME ZONE 'UTC')::date AND at >= {_SINCE} ORDER BY at
"""  # noqa: S608 (made of constants)
# Kinds as `dataset` numbers them.
_ENGAGEMENTS = f"""
SELECT actor_id, post_id, {_MS}, CASE kind WHEN 1 THEN {dataset.LIKE} ELSE {dataset.REPOST} END
FROM engagements WHERE at >= {_SINCE}
UNION ALL
SELECT actor_id, post_id, {_MS}, CASE kind WHEN 1 THEN {dataset.LESS_LIKE_THIS} ELSE {dataset.HIDE} END
FROM feedback WHERE at >= {_SINCE}
UNION ALL
SELECT author_id, reply_to, {_POST_MS}, {dataset.REPLY}
FROM posts WHERE id >= $2 AND reply_to IS NOT NULL AND NOT deleted
ORDER BY 3
"""  # noqa: S608 (made of constants)
_POSTS = f"""
SELECT id, author_id, {_POST_MS}, jsonb_array_length(media) > 0, reply_to IS NOT NULL
FROM posts WHERE id = ANY($1::bigint[]) AND NOT deleted
"""  # noqa: S608 (made of constants)
_WRITTEN = f"""
SELECT DISTINCT author_id, {_POST_MS} / {DAY_MS} FROM posts WHERE id >= $1 AND NOT deleted
"""  # noqa: S608 (made of constants)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """Whom some viewers might have seen, and how they chose their views."""

    follows: dict[int, frozenset[int]]
    """Whom each viewer follows."""
    writers: dict[int, frozenset[int]]
    """Who wrote on each day, counted from 1970-01-01 in UTC."""
    chosen: dict[str, int]
    """How often each of VIEWS was chosen."""


async def read_log(targets: Targets, days: int) -> Log:
    """The log of the latest days. Raises TargetsError where an address is missing or PostgreSQL does not answer."""
    since_ms = int(time.time() * 1_000) - days * DAY_MS
    async with _reading(targets, "post") as post:
        impressions = await _records(post, dataset.IMPRESSION, _IMPRESSIONS, since_ms)
        engagements = await _records(
            post, dataset.ENGAGEMENT, _ENGAGEMENTS, since_ms, first_id_at(max(EPOCH_MS, since_ms))
        )
        ids = np.unique(np.concatenate([impressions["post"], engagements["post"]]))
        posts = [
            (*row, [0] * dataset.TOPICS)
            for start in range(0, len(ids), POSTS_AT_ONCE)
            for row in await post.fetch(_POSTS, ids[start : start + POSTS_AT_ONCE].tolist())
        ]
    async with _reading(targets, "graph") as graph:
        favourites = await graph.fetch("SELECT follower_id, followee_id FROM follows WHERE favourite")
        pulled = await graph.fetch("SELECT author_id FROM pulled_authors")
    log = Log(
        posts=in_time_order(np.array(posts, dataset.POST)),
        impressions=impressions,
        engagements=engagements,
        favourites=np.array([tuple(row) for row in favourites], np.int64).reshape(-1, 2),
        pulled=np.array([row[0] for row in pulled], np.int64),
    )
    await _add_topics(targets, log.posts)
    return log


async def read_circle(targets: Targets, viewers: NDArray[np.int64], days: int) -> Circle:
    """What surrounds viewers now, and what was written in the latest days. Raises TargetsError as `read_log` does."""
    since_ms = int(time.time() * 1_000) - days * DAY_MS
    async with _reading(targets, "graph") as graph:
        follows = await graph.fetch(
            "SELECT follower_id, followee_id FROM follows WHERE follower_id = ANY($1::bigint[])", viewers.tolist()
        )
        choices = await graph.fetch(
            f"SELECT view, count(*) FROM view_choices WHERE chosen_at >= {_SINCE} GROUP BY view",  # noqa: S608
            since_ms,
        )
    async with _reading(targets, "post") as post:
        written = await post.fetch(_WRITTEN, first_id_at(max(EPOCH_MS, since_ms)))
    chosen = {row[0]: row[1] for row in choices}
    return Circle(
        follows=_sets((row[0], row[1]) for row in follows),
        writers=_sets((row[1], row[0]) for row in written),
        chosen={view: chosen.get(number, 0) for number, view in enumerate(dataset.VIEWS)},
    )


@asynccontextmanager
async def _reading(targets: Targets, name: str) -> AsyncGenerator[Sql]:
    """A connection to a service's database, all of which is seen at one moment."""
    if name not in targets.postgres:
        raise TargetsError(f"no address of the database of {name}")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            connection = await asyncpg.connect(targets.postgres[name])
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise TargetsError(f"the database of {name} cannot be reached: {error or 'no answer'}") from error
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection
    except asyncpg.UndefinedTableError as error:
        raise TargetsError(f"the database of {name} is of an older version: {error}") from error
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise TargetsError(f"the database of {name} failed: {error}") from error
    finally:
        await connection.close()


async def _records(connection: Sql, dtype: Any, query: str, *arguments: int) -> Records:
    """The rows of a query as records, read piece by piece."""
    parts: list[Records] = [np.zeros(0, dtype)]
    rows: list[tuple[Any, ...]] = []
    async for row in connection.cursor(query, *arguments, prefetch=ROWS_AT_ONCE):
        rows.append(tuple(row))
        if len(rows) == ROWS_AT_ONCE:
            parts.append(np.array(rows, dtype))
            rows = []
    return np.concatenate([*parts, np.array(rows, dtype)])


def _sets(pairs: Iterable[tuple[int, int]]) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = {}
    for key, value in pairs:
        found.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in found.items()}


async def _add_topics(targets: Targets, posts: Records) -> None:
    """Fill in topics as `post` tells them. Without an address of it they stay unknown; no feature is made of them."""
    if "post" not in targets.grpc:
        return
    place = {int(post): number for number, post in enumerate(posts["post"])}
    ids = list(place)
    try:
        async with grpc.aio.insecure_channel(targets.grpc["post"]) as channel:
            stub: PostServiceAsyncStub = post_grpc.PostServiceStub(channel)
            for start in range(0, len(ids), POSTS_AT_ONCE):
                request = post_pb2.BatchGetTraitsRequest(post_ids=ids[start : start + POSTS_AT_ONCE])
                for traits in (await stub.BatchGetTraits(request, timeout=TRAITS_SECONDS)).posts:
                    topics = [*traits.topics, *[0] * dataset.TOPICS][: dataset.TOPICS]
                    posts["topics"][place[traits.post_id]] = topics
    except grpc.aio.AioRpcError as error:
        raise TargetsError(f"post does not tell topics: {error.code().name}: {error.details()}") from error
