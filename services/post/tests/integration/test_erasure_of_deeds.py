"""Erasing what somebody did with posts who has been deleted: nothing is left of it, and what others have counts right."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import NamedTuple, TypeAlias

import asyncpg
import pytest
from feedkit.postgres import Database
from post_service import erasure as use_cases
from post_service.authors import Authors, Standing
from post_service.cache_store import CacheStore
from post_service.engagement import Counts, Engagement, Engagements, Feedback
from post_service.erasure import Erased, Erasure
from post_service.erasure_store import ErasureStore
from post_service.impressions import Impression, Impressions, View
from post_service.post import Draft
from post_service.posts import Posts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Told = Callable[[], Awaitable[list[tuple[str, int, str, int, int]]]]

GONE, OTHER, AUTHOR = 7, 8, 9


class Service(NamedTuple):
    """What people do with it."""

    posts: Posts
    engagements: Engagements
    impressions: Impressions
    standings: dict[int, Standing | None]

    async def write(self, author_id: int, count: int) -> list[int]:
        """Write some posts."""
        draft = Draft(author_id, "text", ())
        return [(await self.posts.create(draft, "")).post.id for _ in range(count)]

    async def do_everything(self, actor_id: int, post_ids: list[int]) -> None:
        """Do all that somebody can do with each of some posts."""
        for post_id in post_ids:
            for engagement in Engagement:
                await self.engagements.engage(actor_id, post_id, engagement)
            await self.engagements.give_feedback(actor_id, post_id, Feedback.HIDE)
            await self.posts.create(Draft(actor_id, "reply", (), reply_to=post_id), "")
        await self.impressions.record(actor_id, [Impression(post_id, 0, 5, View.RANKED) for post_id in post_ids])

    def delete_account(self) -> None:
        """From now on `GONE` is gone."""
        self.standings[GONE] = None


@pytest.fixture
def service(
    posts: Posts, engagements: Engagements, impressions: Impressions, standings: dict[int, Standing | None]
) -> Service:
    return Service(posts, engagements, impressions, standings)


@pytest.fixture(autouse=True)
def slice_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small slices."""
    monkeypatch.setattr(use_cases, "SLICE", 3)


async def deeds_left(sql: Sql, actor_id: int = GONE) -> int:
    """How many traces there are of what somebody did and saw."""
    return await sql.fetchval(
        "SELECT (SELECT count(*) FROM engagements WHERE actor_id = $1)"
        " + (SELECT count(*) FROM feedback WHERE actor_id = $1)"
        " + (SELECT count(*) FROM impressions WHERE viewer_id = $1)"
        " + (SELECT count(*) FROM posts WHERE author_id = $1)",
        actor_id,
    )


async def erase_all(erasure: Erasure) -> int:
    """Erase until nothing is left; how many calls that took."""
    calls = 1
    while not (await erasure.erase(GONE)).done:
        calls += 1
    return calls


async def test_after_some_calls_nothing_is_left_and_others_posts_count_right_which_is_told(
    service: Service, erasure: Erasure, told: Told, sql: Sql
) -> None:
    written = await service.write(AUTHOR, 5)
    await service.do_everything(GONE, written)
    await service.do_everything(OTHER, written)
    await sql.execute("DELETE FROM outbox")
    service.delete_account()
    assert await erase_all(erasure) > 1
    assert (await deeds_left(sql), await deeds_left(sql, OTHER)) == (0, 25)
    assert await service.engagements.counts(written) == dict.fromkeys(written, Counts(1, 1, 1))
    kinds = ("UNLIKED", "UNREPOSTED", "UNREPLIED")
    expected = [(str(GONE), GONE, kind, post_id, AUTHOR) for kind in kinds for post_id in written]
    assert sorted(await told()) == sorted(expected)


async def test_what_others_did_with_erased_posts_is_gone_before_them_and_their_replies_stay(
    service: Service, erasure: Erasure, sql: Sql
) -> None:
    written = await service.write(GONE, 2)
    for actor_id in range(20, 25):
        await service.do_everything(actor_id, written)
    service.delete_account()
    assert await erasure.erase(GONE) == Erased(0, False)
    assert await sql.fetchval("SELECT count(*) FROM engagements") == 17
    await erase_all(erasure)
    assert await deeds_left(sql) == 0
    assert await sql.fetchval("SELECT count(*) FROM engagements") == 0
    assert await sql.fetchval("SELECT count(*) FROM engagement_counts") == 0
    replies = await sql.fetch("SELECT reply_to, count(*) FROM posts GROUP BY reply_to ORDER BY reply_to")
    assert [tuple(row) for row in replies] == [(post_id, 5) for post_id in written]


async def test_what_somebody_did_with_their_own_posts_is_gone_with_them(
    service: Service, erasure: Erasure, sql: Sql
) -> None:
    await service.do_everything(GONE, await service.write(GONE, 4))
    service.delete_account()
    await erase_all(erasure)
    assert await deeds_left(sql) == 0
    assert await sql.fetchval("SELECT count(*) FROM engagement_counts") == 0


async def test_calls_at_once_count_each_deed_once(service: Service, erasure: Erasure, told: Told) -> None:
    written = await service.write(AUTHOR, 6)
    await service.do_everything(GONE, written)
    await service.do_everything(OTHER, written)
    service.delete_account()
    while not all(answer.done for answer in await asyncio.gather(*(erasure.erase(GONE) for _ in range(4)))):
        continue
    assert await service.engagements.counts(written) == dict.fromkeys(written, Counts(1, 1, 1))
    assert len([kind for _, _, kind, _, _ in await told() if kind.startswith("UN")]) == 18


async def test_an_erasure_beside_others_likes_keeps_the_counts_right(service: Service, erasure: Erasure) -> None:
    written = await service.write(AUTHOR, 6)
    await service.do_everything(GONE, written)
    service.delete_account()
    likes = [
        service.engagements.engage(actor_id, post_id, Engagement.LIKE)
        for actor_id in range(20, 30)
        for post_id in written
    ]
    await asyncio.gather(erase_all(erasure), *likes)
    assert await service.engagements.counts(written) == dict.fromkeys(written, Counts(10, 0, 0))


# --- what comes after -------------------------------------------------------------------------------------------------


async def test_a_like_by_whoever_was_still_taken_for_active_is_erased_a_while_later(
    service: Service, erasure: Erasure, sql: Sql
) -> None:
    [written] = await service.write(AUTHOR, 1)
    service.delete_account()
    assert await erasure.erase(GONE) == Erased(0, True)
    # By a process that had asked for the account before it was deleted.
    service.standings[GONE] = Standing.ACTIVE
    await service.engagements.engage(GONE, written, Engagement.LIKE)
    service.delete_account()
    assert await erasure.erase_once_more(10) == 1
    assert (await deeds_left(sql), await service.engagements.counts([written])) == (0, {written: (0, 0, 0)})
    assert await erasure.erase_once_more(10) == 0


async def test_looking_once_more_goes_on_until_nothing_is_left(service: Service, erasure: Erasure, sql: Sql) -> None:
    await service.write(GONE, 7)
    service.delete_account()
    await erasure.erase(GONE)
    assert [await erasure.erase_once_more(10) for _ in range(3)] == [0, 1, 0]
    assert await deeds_left(sql) == 0


async def test_nobody_is_looked_for_once_more_while_some_may_take_them_for_active(
    database: Database, caches: CacheStore, authors: Authors, standings: dict[int, Standing | None], sql: Sql
) -> None:
    erasure = Erasure(ErasureStore(database, remembered=timedelta(seconds=60)), caches, authors)
    standings[GONE] = None
    await erasure.erase(GONE)
    assert await erasure.erase_once_more(10) == 0
    await sql.execute("UPDATE erased_authors SET at = now() - interval '61 seconds'")
    # Being erased again, as by a retry, does not make it begin anew.
    await erasure.erase(GONE)
    assert await erasure.erase_once_more(10) == 1


async def test_what_is_looked_for_is_found_by_an_index(sql: Sql) -> None:
    await sql.execute("SET enable_seqscan = off")
    for table, condition, index in (
        ("engagements", "actor_id = 5", "engagements_of_actor"),
        ("engagements", "post_id = 5", "engagements_pkey"),
        ("engagements", "at >= now()", "engagements_by_time"),
        ("feedback", "actor_id = 5", "feedback_pkey"),
        ("feedback", "at >= now()", "feedback_by_time"),
    ):
        plan = await sql.fetch(f"EXPLAIN SELECT FROM {table} WHERE {condition}")
        assert index in "".join(row[0] for row in plan)
