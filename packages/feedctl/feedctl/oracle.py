"""The one invariant, checked: what a walk returned against what the truth in PostgreSQL says.

The oracle is the pull query over the databases of `post` and `graph`. It is read directly from them, past every service,
so that no fault of a service can hide in it. Compare only what has settled: between the walk and the query nothing must
be written that concerns the viewer.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType

import asyncpg

# 0 is the standing of accounts that are neither suspended nor deleted.
_AUTHORS = """
SELECT id FROM users
WHERE standing = 0
  AND (id = $1 OR id IN (SELECT followee_id FROM follows WHERE follower_id = $1))
  AND id NOT IN (SELECT muted_id FROM mutes WHERE muter_id = $1)
"""
_POSTS = "SELECT id FROM posts WHERE author_id = ANY($1::bigint[]) AND NOT deleted ORDER BY id DESC"


class Oracle:
    """Answers what a home timeline must be. An asynchronous context manager that holds one connection to each database."""

    def __init__(self, *, graph_dsn: str, post_dsn: str) -> None:
        self._graph_dsn = graph_dsn
        self._post_dsn = post_dsn

    async def __aenter__(self) -> "Oracle":
        self._graph = await asyncpg.connect(self._graph_dsn)
        self._post = await asyncpg.connect(self._post_dsn)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._graph.close()
        await self._post.close()

    async def home_timeline(self, viewer_id: int) -> list[int]:
        """The post ids of a viewer's LATEST timeline, newest first, to its end."""
        authors = [row["id"] for row in await self._graph.fetch(_AUTHORS, viewer_id)]
        return [row["id"] for row in await self._post.fetch(_POSTS, authors)]

    async def viewers(self, sample: int, seed: int) -> list[int]:
        """Ids of `sample` users picked at random, the same ones for the same seed and the same users."""
        rows = await self._graph.fetch(
            "SELECT id FROM users WHERE standing < 2 ORDER BY md5(id::text || $2::text), id LIMIT $1", sample, str(seed)
        )
        return [row["id"] for row in rows]


@dataclass(frozen=True)
class Walk:
    """A timeline read page by page to its end."""

    viewer_id: int
    limit: int
    pages: tuple[tuple[int, ...], ...]
    """The post ids of each page, in the order in which they came."""
    cursors: tuple[str, ...]
    """The cursor that each page but the last came with."""

    @property
    def post_ids(self) -> list[int]:
        """All post ids in the order in which they came."""
        return [post_id for page in self.pages for post_id in page]


def faults(expected: Sequence[int], walk: Walk) -> list[str]:
    """What is wrong with a walk, a sentence each; nothing if it equals the oracle.

    Besides equality: no page longer than asked for, no cursor twice, and an end within `ceil(n / limit) + 1` requests.
    """
    found = walk.post_ids
    wrong: list[str] = []
    if lost := sorted(set(expected) - set(found), reverse=True):
        wrong.append(f"lost {_some(lost)}")
    if extra := sorted(set(found) - set(expected), reverse=True):
        wrong.append(f"extra {_some(extra)}")
    if repeated := sorted((post_id for post_id, times in Counter(found).items() if times > 1), reverse=True):
        wrong.append(f"repeated {_some(repeated)}")
    if any(earlier <= later for earlier, later in pairwise(found)):
        wrong.append("not in descending order")
    if any(len(page) > walk.limit for page in walk.pages):
        wrong.append(f"a page longer than {walk.limit}")
    if len(walk.cursors) != len(set(walk.cursors)):
        wrong.append("a cursor came twice")
    if len(walk.pages) > -(-len(expected) // walk.limit) + 1:
        wrong.append(f"{len(walk.pages)} requests for {len(expected)} posts")
    return wrong


def _some(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:5]))
    return f"{len(ids)} ({shown}{', …' if len(ids) > 5 else ''})"
