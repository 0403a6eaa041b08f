"""The pull query: the newest posts of many authors, read from the index `posts_of_author` alone.

An index probe reads every entry of the author that its leaf page holds, so the cost of a probe is not what it returns but
what lies between its bounds. Hence three steps, in one statement and on one snapshot:

1. A sample of the authors is probed. Its limit-th newest id is a *floor*: nothing older can be in the answer.
2. Every author is probed above the floor, for a small share of the answer. The limit-th newest id is a higher *bound*.
3. Whoever gave all of their share, and all above the bound, is probed for the rest above the bound.

A floor or a bound that does not exist, because too few posts were found, is 0: then the next step reads deeper.
"""

from collections.abc import Sequence
from typing import NamedTuple

SAMPLE = 32
"""How many authors make the floor: enough for a good one, few enough not to be noticed beside all of them."""

SQL = """
WITH sampled AS MATERIALIZED (
    SELECT probe.id
    FROM unnest($4::bigint[]) AS author (id)
    CROSS JOIN LATERAL (
        SELECT id FROM posts
        WHERE author_id = author.id AND NOT deleted AND id < $2
        ORDER BY id DESC LIMIT $5
    ) AS probe
), floor AS MATERIALIZED (
    SELECT coalesce((SELECT id FROM sampled ORDER BY id DESC OFFSET $3 - 1 LIMIT 1), 0) AS id
), newest AS MATERIALIZED (
    SELECT probe.id, probe.author_id
    FROM unnest($1::bigint[]) AS author (id)
    CROSS JOIN LATERAL (
        SELECT id, author_id FROM posts
        WHERE author_id = author.id AND NOT deleted AND id < $2 AND id >= (SELECT id FROM floor)
        ORDER BY id DESC LIMIT $6
    ) AS probe
), bound AS MATERIALIZED (
    SELECT coalesce(
        (SELECT id FROM newest ORDER BY id DESC OFFSET $3 - 1 LIMIT 1), (SELECT id FROM floor)
    ) AS id
), deep AS (
    SELECT author_id, min(id) AS id FROM newest
    WHERE id >= (SELECT id FROM bound)
    GROUP BY author_id HAVING count(*) = $6
)
SELECT id, author_id FROM newest WHERE id >= (SELECT id FROM bound)
UNION ALL
SELECT probe.id, probe.author_id
FROM deep
CROSS JOIN LATERAL (
    SELECT id, author_id FROM posts
    WHERE author_id = deep.author_id AND NOT deleted AND id < deep.id AND id >= (SELECT id FROM bound)
    ORDER BY id DESC LIMIT $3 - $6
) AS probe
ORDER BY id DESC LIMIT $3
"""


class Arguments(NamedTuple):
    """The parameters of the statement, in its order."""

    author_ids: Sequence[int]
    before_id: int
    limit: int
    sample: Sequence[int]
    sample_share: int
    share: int


def arguments(author_ids: Sequence[int], before_id: int, limit: int) -> Arguments:
    """The parameters for distinct authors (at least one), an exclusive upper bound of ids, and the size of the answer."""
    authors = sorted(author_ids)
    # Evenly spread: neighbours in the order of ids joined at the same time, and may write alike.
    sample = authors[:: -(-len(authors) // SAMPLE)]
    return Arguments(authors, before_id, limit, sample, _share(limit, len(sample)), _share(limit, len(authors)))


def _share(limit: int, authors: int) -> int:
    # Twice an even share, because nobody writes evenly. Together the shares hold at least `limit` posts.
    return min(2 * (limit // authors + 1), limit)
