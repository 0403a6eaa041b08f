"""The pull query against its definition, and its plan."""

import json
import random
from collections.abc import Awaitable, Callable, Generator
from datetime import timedelta
from typing import Any, TypeAlias, cast

import asyncpg
import pytest
from feedkit.postgres import Database
from post_service import pull_query
from post_service.store import PostStore

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
OpenDatabase = Callable[..., Awaitable[Database]]

NEWEST = 2**63 - 1
DEFINITION = """
SELECT id, author_id FROM posts WHERE author_id = ANY($1::bigint[]) AND NOT deleted AND id < $2
ORDER BY id DESC LIMIT $3
"""


async def fill(sql: Sql, authors: list[int]) -> None:
    """Write a post for each entry, in this order, every seventh of them deleted."""
    rows = [(100 * (number + 1), author, number % 7 == 3) for number, author in enumerate(authors)]
    posts = [(post_id, author, "text", "[]", deleted) for post_id, author, deleted in rows]
    columns = ["id", "author_id", "content", "media", "deleted"]
    await sql.copy_records_to_table("posts", records=posts, columns=columns)


def worlds(chance: random.Random) -> dict[str, list[int]]:
    """Who wrote in which order: the shapes that make floors and bounds high, low, or none at all."""
    return {
        "all write alike": [chance.randrange(1, 101) for _ in range(3000)],
        "few write most": [min(int(chance.paretovariate(0.4)), 200) for _ in range(3000)],
        "one wrote all that is new": [chance.randrange(1, 101) for _ in range(1500)] + [50] * 1500,
        "one wrote all that is old": [50] * 1500 + [chance.randrange(1, 101) for _ in range(1500)],
        "each in a stretch of their own": sorted(chance.randrange(1, 101) for _ in range(3000)),
        "most wrote once": list(range(1, 1000)) + [chance.randrange(1, 20) for _ in range(2000)],
        "nobody wrote": [],
    }


@pytest.mark.parametrize("world", worlds(random.Random()))
async def test_the_answer_is_that_of_a_sort_of_everything(world: str, sql: Sql, open_database: OpenDatabase) -> None:
    chance = random.Random(world)
    await fill(sql, worlds(chance)[world])
    store = PostStore(await open_database(), key_lifetime=timedelta(1), key_wait_seconds=1)
    for _ in range(60):
        authors = chance.sample(range(1, 1200), chance.choice([1, 2, 10, 33, 300, 1100]))
        before = chance.choice([NEWEST, chance.randrange(1, 300_000)])
        limit = chance.choice([1, 2, 20, 51, 401, 1000])
        expected = [tuple(row) for row in await sql.fetch(DEFINITION, authors, before, limit)]
        assert await store.recent(authors, before, limit) == expected


def nodes(plan: dict[str, Any]) -> Generator[dict[str, Any]]:
    """A plan and all that is below it."""
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


async def explained(sql: Sql, authors: list[int], limit: int) -> dict[str, Any]:
    prepared = ", ".join(
        f"'{{{','.join(map(str, value))}}}'" if isinstance(value, list) else str(value)
        for value in pull_query.arguments(authors, NEWEST, limit)
    )
    await sql.execute(f"PREPARE pull (bigint[], bigint, int, bigint[], int, int) AS {pull_query.SQL}")
    text = await sql.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE pull ({prepared})")
    return cast("dict[str, Any]", json.loads(text)[0]["Plan"])


async def planned(sql: Sql, plan_cache_mode: str, followed: int, limit: int) -> list[dict[str, Any]]:
    """The nodes of the plan for some of 200 authors, each with about 300 posts."""
    await sql.execute(f"SET plan_cache_mode = {plan_cache_mode}")
    return list(nodes(await explained(sql, list(range(1, followed + 1)), limit)))


@pytest.fixture
async def filled(sql: Sql) -> Sql:
    chance = random.Random(1)
    await fill(sql, [chance.randrange(1, 201) for _ in range(60_000)])
    return sql


PLANS = pytest.mark.parametrize("plan_cache_mode", ["force_custom_plan", "force_generic_plan"])
SIZES = pytest.mark.parametrize(("followed", "limit"), [(3, 20), (40, 51), (200, 51), (200, 801)])


@PLANS
@SIZES
async def test_posts_are_read_from_the_index_alone_and_hardly_more_of_them_than_the_answer_needs(
    filled: Sql, plan_cache_mode: str, followed: int, limit: int
) -> None:
    await filled.execute("VACUUM ANALYZE posts")
    plan = await planned(filled, plan_cache_mode, followed, limit)
    scans = [node for node in plan if node.get("Relation Name") == "posts"]
    assert {(node["Node Type"], node.get("Index Name")) for node in scans} == {("Index Only Scan", "posts_of_author")}
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in scans) <= 6 * limit + 2 * followed
    # Far below the cost at which PostgreSQL would compile the statement first (jit_above_cost).
    assert plan[0]["Total Cost"] < 50_000


@PLANS
@SIZES
async def test_a_table_that_was_never_analysed_is_not_read_from_end_to_end(
    filled: Sql, plan_cache_mode: str, followed: int, limit: int
) -> None:
    plan = await planned(filled, plan_cache_mode, followed, limit)
    assert {node["Index Name"] for node in plan if "Index Name" in node} == {"posts_of_author"}
    assert "Seq Scan" not in {node["Node Type"] for node in plan}
