"""Whose posts are withheld from a viewer, in PostgreSQL."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feedkit.postgres import Database
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.hidden_authors import MOST_BLOCKED, HiddenAuthorLists
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.store import Store

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
OpenDatabase = Callable[..., Awaitable[Database]]
MakeUsers = Callable[[int], Awaitable[list[int]]]


async def test_they_are_those_who_block_or_are_blocked_and_those_who_are_muted(
    database: Database, caches: CacheStore, store: Store, make_users: MakeUsers
):
    blocks, mutes = Blocks(BlockStore(database), caches, 5000), Mutes(MuteStore(database), caches, 5000)
    viewer, blocked, blocker, both, muted, other = await make_users(6)
    for a, b in ((viewer, blocked), (blocker, viewer), (viewer, both), (both, viewer), (blocker, other)):
        await blocks.block(a, b)
    for a, b in ((viewer, muted), (viewer, blocked), (other, viewer)):
        await mutes.mute(a, b)
    hidden = await HiddenAuthorLists(store).get(viewer)
    assert hidden == ([blocked, blocker, both], [blocked, muted], False)


async def test_nobody_is_hidden_from_an_unknown_viewer(store: Store):
    assert await HiddenAuthorLists(store).get(2**63 - 1) == ([], [], False)


async def test_one_whom_too_many_block_is_told_that_there_are_more_without_reading_all(
    open_database: OpenDatabase, make_users: MakeUsers, sql: Sql
):
    database = await open_database(postgres_pool_size=1)
    viewer, other, *blockers = await make_users(3 * MOST_BLOCKED)
    await sql.execute("INSERT INTO blocks SELECT id, $2 FROM unnest($1::bigint[]) id", blockers, viewer)
    await sql.execute("INSERT INTO blocks VALUES ($1, $2)", viewer, other)
    await sql.execute("VACUUM ANALYZE blocks")
    reads = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'blocks'"
    before: int = await sql.fetchval(reads)
    hidden = await HiddenAuthorLists(Store(database)).get(viewer)
    assert hidden.more_block
    assert list(hidden.blocked_ids) == [other, *blockers[-MOST_BLOCKED + 1 :]]
    async with database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    assert MOST_BLOCKED < await sql.fetchval(reads) - before < 1.1 * MOST_BLOCKED
