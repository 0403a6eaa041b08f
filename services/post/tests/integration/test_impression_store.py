"""Impressions in a real PostgreSQL: one for each viewer, post, view and day, told once, and kept for a time."""

import asyncio
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import NotFound
from feedkit.postgres import Database
from post_service.authors import Standing
from post_service.impression_store import OldImpressions
from post_service.impressions import Impression, Impressions, View
from post_service.post import Draft
from post_service.posts import Posts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

AUTHOR, VIEWER = 7, 8


@pytest.fixture
async def post_ids(posts: Posts) -> list[int]:
    return [(await posts.create(Draft(AUTHOR, "text", ()), "")).post.id for _ in range(4)]


def saw(post_id: int, position: int = 0, dwell_ms: int = 100, view: View = View.LATEST) -> Impression:
    return Impression(post_id, position, dwell_ms, view)


async def kept(sql: Sql) -> list[tuple[int, ...]]:
    rows = await sql.fetch(
        "SELECT viewer_id, post_id, view, position, dwell_ms FROM impressions ORDER BY viewer_id, post_id, view, day"
    )
    return [tuple(row) for row in rows]


async def seen(sql: Sql) -> list[tuple[str, events_pb2.ImpressionsEvent]]:
    """What was told of impressions, in order, each with its key."""
    rows = await sql.fetch(
        "SELECT key, payload FROM outbox WHERE topic = 'feed.engagement.events.v1'"
        " AND type = 'feed.events.v1.ImpressionsEvent' ORDER BY id"
    )
    return [(row["key"], events_pb2.ImpressionsEvent.FromString(row["payload"])) for row in rows]


async def test_what_was_seen_is_kept_and_told_once_keyed_by_the_viewer(
    impressions: Impressions, post_ids: list[int], sql: Sql
) -> None:
    told = [saw(post_ids[0], 0, 100), saw(post_ids[1], 1, 200, View.RANKED)]
    assert await impressions.record(VIEWER, told) == 2
    assert await impressions.record(VIEWER, told) == 0
    assert await kept(sql) == [(VIEWER, post_ids[0], 1, 0, 100), (VIEWER, post_ids[1], 2, 1, 200)]
    [(key, event)] = await seen(sql)
    assert (key, event.viewer_id) == ("8", VIEWER)
    assert [(post.post_id, post.author_id, post.dwell_ms) for post in event.posts] == [
        (post_ids[0], AUTHOR, 100),
        (post_ids[1], AUTHOR, 200),
    ]


async def test_a_longer_dwell_replaces_a_shorter_one_and_the_first_position_stays(
    impressions: Impressions, post_ids: list[int], sql: Sql
) -> None:
    assert await impressions.record(VIEWER, [saw(post_ids[0], position=3, dwell_ms=50)]) == 1
    assert await impressions.record(VIEWER, [saw(post_ids[0], position=1, dwell_ms=70)]) == 0
    assert await impressions.record(VIEWER, [saw(post_ids[0], position=2, dwell_ms=60)]) == 0
    assert await kept(sql) == [(VIEWER, post_ids[0], 1, 3, 70)]
    assert len(await seen(sql)) == 1


async def test_only_what_is_new_is_told(impressions: Impressions, post_ids: list[int], sql: Sql) -> None:
    await impressions.record(VIEWER, [saw(post_ids[0])])
    assert await impressions.record(VIEWER, [saw(post_ids[0], dwell_ms=200), saw(post_ids[1])]) == 1
    assert [post.post_id for _, event in await seen(sql) for post in event.posts] == post_ids[:2]


async def test_views_viewers_and_days_are_apart(impressions: Impressions, post_ids: list[int], sql: Sql) -> None:
    await impressions.record(VIEWER, [saw(post_ids[0])])
    await sql.execute("UPDATE impressions SET day = day - 1")
    assert await impressions.record(VIEWER, [saw(post_ids[0]), saw(post_ids[0], view=View.RANKED)]) == 2
    assert await impressions.record(9, [saw(post_ids[0])]) == 1
    assert len(await kept(sql)) == 4


async def test_the_day_is_that_of_utc(impressions: Impressions, post_ids: list[int], sql: Sql) -> None:
    await impressions.record(VIEWER, [saw(post_ids[0])])
    assert await sql.fetchval("SELECT day = (at AT TIME ZONE 'UTC')::date FROM impressions")


async def test_one_post_told_twice_at_once_is_one_impression(
    impressions: Impressions, post_ids: list[int], sql: Sql
) -> None:
    told = [saw(post_ids[0], position=4, dwell_ms=10), saw(post_ids[0], position=0, dwell_ms=90)]
    assert await impressions.record(VIEWER, told) == 1
    assert await kept(sql) == [(VIEWER, post_ids[0], 1, 4, 90)]


async def test_posts_that_are_not_there_are_passed_over(
    impressions: Impressions, posts: Posts, post_ids: list[int], sql: Sql
) -> None:
    await posts.delete(AUTHOR, post_ids[1])
    assert await impressions.record(VIEWER, [saw(5), saw(post_ids[1]), saw(post_ids[2])]) == 1
    assert await impressions.record(VIEWER, [saw(5)]) == 0
    assert await kept(sql) == [(VIEWER, post_ids[2], 1, 0, 100)]


async def test_retries_at_once_in_any_order_record_each_once(impressions: Impressions, sql: Sql) -> None:
    """So many that two of them would meet half way, each with rows that the other wants."""
    name = await sql.fetchval("SELECT current_database()")
    for plan in ("hashjoin", "mergejoin"):
        # Neither puts them in order by chance.
        await sql.execute(f"ALTER DATABASE {name} SET enable_{plan} = off")
    post_ids = list(range(1, 101))
    await sql.execute("INSERT INTO posts SELECT id, 7, 'text', '[]' FROM unnest($1::bigint[]) AS id", post_ids)
    told = [saw(post_id, dwell_ms=post_id % 7) for post_id in post_ids]
    recorded = await asyncio.gather(*(impressions.record(VIEWER, told[:: (-1) ** turn]) for turn in range(20)))
    assert sum(recorded) == len(post_ids)
    assert sorted(post.post_id for _, event in await seen(sql) for post in event.posts) == post_ids


async def test_a_suspended_viewer_still_sees_but_one_who_is_gone_does_not(
    impressions: Impressions, post_ids: list[int], standings: dict[int, Standing | None]
) -> None:
    standings[VIEWER] = Standing.SUSPENDED
    assert await impressions.record(VIEWER, [saw(post_ids[0])]) == 1
    standings[VIEWER] = None
    with pytest.raises(NotFound) as refusal:
        await impressions.record(VIEWER, [saw(post_ids[1])])
    assert (refusal.value.reason, refusal.value.metadata["field"]) == ("USER_NOT_FOUND", "viewer_id")


async def test_old_impressions_are_removed_in_bounded_batches_and_others_stay(
    impressions: Impressions, post_ids: list[int], database: Database, sql: Sql
) -> None:
    for viewer_id in (VIEWER, 9):
        await impressions.record(viewer_id, [saw(post_id) for post_id in post_ids])
    await sql.execute("UPDATE impressions SET day = day - 31 WHERE post_id <> $1", post_ids[0])
    await sql.execute("UPDATE impressions SET day = day - 30 WHERE post_id = $1", post_ids[0])
    old = OldImpressions(database, days=30)
    assert [await old.remove(4) for _ in range(3)] == [4, 2, 0]
    assert [row[:2] for row in await kept(sql)] == [(VIEWER, post_ids[0]), (9, post_ids[0])]


async def test_old_ones_and_those_of_a_viewer_are_found_by_indexes(sql: Sql) -> None:
    await sql.execute("SET enable_seqscan = off")
    for condition, index in (("day < '2026-01-01'", "impressions_by_day"), ("viewer_id = 5", "impressions_pkey")):
        plan = await sql.fetch(f"EXPLAIN SELECT FROM impressions WHERE {condition} LIMIT 10")
        assert index in "".join(row[0] for row in plan)
