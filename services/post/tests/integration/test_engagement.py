"""Likes, reposts and feedback in a real PostgreSQL: each counts once, whoever does what at the same time."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import asyncpg
import pytest
from feed.events.v1 import events_pb2
from feedkit.errors import NotFound, PermissionDenied
from feedkit.postgres import Database
from post_service.audience import Audience
from post_service.authors import Authors, Standing
from post_service.engagement import Counts, Engagement, Engagements, Feedback
from post_service.engagement_store import EngagementStore, OldFeedback
from post_service.post import Draft
from post_service.posts import Posts

pytestmark = pytest.mark.integration

Sql: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Told = Callable[[], Awaitable[list[tuple[str, int, str, int, int]]]]
OpenDatabase = Callable[..., Awaitable[Database]]

AUTHOR, ACTOR, OTHER = 7, 8, 9
LIKE, REPOST = Engagement.LIKE, Engagement.REPOST


@pytest.fixture
async def post_id(posts: Posts) -> int:
    return (await posts.create(Draft(AUTHOR, "text", ()), "")).post.id


async def counts_of(engagements: Engagements, post_id: int) -> Counts:
    return (await engagements.counts([post_id]))[post_id]


async def test_a_like_and_a_repost_count_apart_and_are_taken_back_apart(engagements: Engagements, post_id: int) -> None:
    assert await engagements.engage(ACTOR, post_id, LIKE) == (Counts(1, 0, 0), True)
    assert await engagements.engage(ACTOR, post_id, REPOST) == (Counts(1, 1, 0), True)
    assert await engagements.disengage(ACTOR, post_id, LIKE) == (Counts(0, 1, 0), True)
    assert await counts_of(engagements, post_id) == (0, 1, 0)


async def test_doing_it_again_changes_nothing_and_is_not_told(
    engagements: Engagements, post_id: int, told: Told
) -> None:
    for changed in (True, False, False):
        assert await engagements.engage(ACTOR, post_id, LIKE) == (Counts(1, 0, 0), changed)
    for changed in (True, False, False):
        assert await engagements.disengage(ACTOR, post_id, LIKE) == (Counts(0, 0, 0), changed)
    assert [kind for _, _, kind, _, _ in await told()] == ["LIKED", "UNLIKED"]


async def test_each_change_is_told_with_its_time_keyed_by_the_actor(
    engagements: Engagements, post_id: int, sql: Sql, told: Told
) -> None:
    before_ms = time.time_ns() // 1_000_000
    for engagement in Engagement:
        await engagements.engage(ACTOR, post_id, engagement)
    for engagement in Engagement:
        await engagements.disengage(ACTOR, post_id, engagement)
    for feedback in Feedback:
        await engagements.give_feedback(ACTOR, post_id, feedback)
    kinds = ["LIKED", "REPOSTED", "UNLIKED", "UNREPOSTED", "LESS_LIKE_THIS", "HIDDEN"]
    assert await told() == [("8", ACTOR, kind, post_id, AUTHOR) for kind in kinds]
    payload = await sql.fetchval("SELECT payload FROM outbox ORDER BY id DESC LIMIT 1")
    at_ms = events_pb2.EngagementEvent.FromString(payload).occurred_at_ms
    assert before_ms <= at_ms <= time.time_ns() // 1_000_000


async def test_a_like_without_its_event_is_not_counted(engagements: Engagements, post_id: int, sql: Sql) -> None:
    await sql.execute("ALTER TABLE outbox ADD CHECK (topic <> 'feed.engagement.events.v1')")
    with pytest.raises(Exception, match="outbox"):
        await engagements.engage(ACTOR, post_id, LIKE)
    assert await counts_of(engagements, post_id) == (0, 0, 0)
    assert await sql.fetchval("SELECT count(*) FROM engagements") == 0


async def test_authors_may_like_their_own_posts(engagements: Engagements, post_id: int) -> None:
    assert (await engagements.engage(AUTHOR, post_id, LIKE)).counts.likes == 1


# --- at the same time -------------------------------------------------------------------------------------------------


async def test_one_actor_in_20_calls_at_once_counts_once(engagements: Engagements, post_id: int, told: Told) -> None:
    outcomes = await asyncio.gather(*(engagements.engage(ACTOR, post_id, LIKE) for _ in range(20)))
    assert sum(outcome.changed for outcome in outcomes) == 1
    assert {outcome.counts for outcome in outcomes} == {Counts(1, 0, 0)}
    assert await counts_of(engagements, post_id) == (1, 0, 0)
    assert len(await told()) == 1


async def test_many_actors_at_once_are_all_counted_over_several_slots(
    open_database: OpenDatabase, authors: Authors, audience: Audience, post_id: int, sql: Sql
) -> None:
    database = await open_database(postgres_pool_size=16)
    engagements = Engagements(EngagementStore(database), authors, audience)
    await asyncio.gather(*(engagements.engage(actor_id, post_id, LIKE) for actor_id in range(100, 300)))
    assert await counts_of(engagements, post_id) == (200, 0, 0)
    assert await sql.fetchval("SELECT count(*) FROM engagement_counts WHERE kind = 1") > 1


@pytest.mark.parametrize("seed", range(3))
async def test_racing_likes_and_unlikes_end_as_their_rows_do(
    engagements: Engagements, post_id: int, sql: Sql, seed: int, told: Told
) -> None:
    """A few actors, so that calls of one actor meet; and one post, so that all do."""
    choice = random.Random(seed)
    calls = [
        choice.choice([engagements.engage, engagements.disengage])(choice.randrange(100, 104), post_id, engagement)
        for engagement in choice.choices(list(Engagement), k=120)
    ]
    outcomes = await asyncio.gather(*calls)
    rows = await sql.fetch("SELECT kind, count(*) FROM engagements GROUP BY kind")
    standing = dict.fromkeys((1, 2), 0) | {row[0]: row[1] for row in rows}
    assert await counts_of(engagements, post_id) == (standing[1], standing[2], 0)
    events = [kind for _, _, kind, _, _ in await told()]
    assert len(events) == sum(outcome.changed for outcome in outcomes)
    assert events.count("LIKED") - events.count("UNLIKED") == standing[1]
    assert events.count("REPOSTED") - events.count("UNREPOSTED") == standing[2]
    assert all(outcome.counts is not None and min(outcome.counts) >= 0 for outcome in outcomes)


async def test_a_delete_that_races_likes_leaves_a_post_that_is_not_there(
    posts: Posts, engagements: Engagements, post_id: int
) -> None:
    likes = [engagements.engage(actor_id, post_id, LIKE) for actor_id in range(100, 120)]
    answers = await asyncio.gather(*likes, posts.delete(AUTHOR, post_id), return_exceptions=True)
    refusals = [answer for answer in answers if isinstance(answer, BaseException)]
    assert all(isinstance(refusal, NotFound) for refusal in refusals)
    assert await engagements.counts([post_id]) == {}


async def test_likes_of_a_post_do_not_wait_for_whoever_holds_it(
    engagements: Engagements, post_id: int, sql: Sql
) -> None:
    async with sql.transaction(), asyncio.timeout(4):
        await sql.execute("SELECT FROM posts WHERE id = $1 FOR UPDATE", post_id)
        assert (await engagements.engage(ACTOR, post_id, LIKE)).changed


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_post_that_is_not_there_is_refused(
    posts: Posts, engagements: Engagements, post_id: int, deleted: bool, told: Told
) -> None:
    if deleted:
        await posts.delete(AUTHOR, post_id)
    missing = post_id if deleted else post_id + 1
    for call in (
        engagements.engage(ACTOR, missing, LIKE),
        engagements.disengage(ACTOR, missing, LIKE),
        engagements.give_feedback(ACTOR, missing, Feedback.HIDE),
    ):
        with pytest.raises(NotFound) as refusal:
            await call
        assert (refusal.value.reason, refusal.value.metadata) == ("POST_NOT_FOUND", {"post_id": str(missing)})
    assert await told() == []


async def test_after_a_block_a_post_cannot_be_liked_but_a_like_be_taken_back_and_feedback_given(
    engagements: Engagements, post_id: int, blocks: set[frozenset[int]]
) -> None:
    await engagements.engage(ACTOR, post_id, LIKE)
    blocks.add(frozenset({ACTOR, AUTHOR}))
    with pytest.raises(NotFound) as refusal:
        await engagements.engage(ACTOR, post_id, REPOST)
    assert refusal.value.reason == "POST_NOT_FOUND"
    assert (await engagements.disengage(ACTOR, post_id, LIKE)).changed
    assert await engagements.give_feedback(ACTOR, post_id, Feedback.HIDE)


@pytest.mark.parametrize("hidden_by", ["a block", "a suspension"])
async def test_taking_back_tells_no_counts_of_what_the_actor_is_not_shown(
    engagements: Engagements,
    post_id: int,
    blocks: set[frozenset[int]],
    standings: dict[int, Standing | None],
    hidden_by: str,
) -> None:
    await engagements.engage(OTHER, post_id, LIKE)
    await engagements.engage(ACTOR, post_id, LIKE)
    if hidden_by == "a block":
        blocks.add(frozenset({ACTOR, AUTHOR}))
    else:
        standings[AUTHOR] = Standing.SUSPENDED
    for changed in (True, False):
        assert await engagements.disengage(ACTOR, post_id, LIKE) == (None, changed)


async def test_a_suspended_actor_takes_back_and_tells_but_likes_nothing(
    engagements: Engagements, post_id: int, standings: dict[int, Standing | None]
) -> None:
    await engagements.engage(ACTOR, post_id, LIKE)
    standings[ACTOR] = Standing.SUSPENDED
    with pytest.raises(PermissionDenied) as refusal:
        await engagements.engage(ACTOR, post_id, REPOST)
    assert refusal.value.reason == "ACCOUNT_SUSPENDED"
    assert (await engagements.disengage(ACTOR, post_id, LIKE)).changed
    assert await engagements.give_feedback(ACTOR, post_id, Feedback.LESS_LIKE_THIS)


async def test_an_actor_who_is_gone_does_nothing(
    engagements: Engagements, post_id: int, standings: dict[int, Standing | None], told: Told
) -> None:
    standings[ACTOR] = None
    for call in (
        engagements.engage(ACTOR, post_id, LIKE),
        engagements.disengage(ACTOR, post_id, LIKE),
        engagements.give_feedback(ACTOR, post_id, Feedback.HIDE),
    ):
        with pytest.raises(NotFound) as refusal:
            await call
        assert (refusal.value.reason, refusal.value.metadata["field"]) == ("USER_NOT_FOUND", "actor_id")
    assert await told() == []


# --- feedback, and what is read ---------------------------------------------------------------------------------------


async def test_feedback_is_kept_and_told_once(engagements: Engagements, post_id: int, sql: Sql, told: Told) -> None:
    given = await asyncio.gather(*(engagements.give_feedback(ACTOR, post_id, Feedback.HIDE) for _ in range(5)))
    assert sorted(given) == [False] * 4 + [True]
    assert await sql.fetch("SELECT post_id, actor_id, kind FROM feedback") == [(post_id, ACTOR, 2)]
    assert [kind for _, _, kind, _, _ in await told()] == ["HIDDEN"]


async def test_old_feedback_is_removed_in_bounded_batches_and_other_stays(
    engagements: Engagements, posts: Posts, database: Database, sql: Sql
) -> None:
    post_ids = [(await posts.create(Draft(AUTHOR, "text", ()), "")).post.id for _ in range(5)]
    for post_id in post_ids:
        await engagements.give_feedback(ACTOR, post_id, Feedback.HIDE)
        await engagements.engage(ACTOR, post_id, LIKE)
    await sql.execute("UPDATE feedback SET at = now() - interval '29 days' WHERE post_id = $1", post_ids[0])
    await sql.execute("UPDATE feedback SET at = now() - interval '31 days' WHERE post_id > $1", post_ids[0])
    await sql.execute("UPDATE engagements SET at = now() - interval '31 days'")
    old = OldFeedback(database, days=30)
    assert [await old.remove(3) for _ in range(3)] == [3, 1, 0]
    assert await sql.fetch("SELECT post_id FROM feedback") == [(post_ids[0],)]
    assert await sql.fetchval("SELECT count(*) FROM engagements") == 5


async def test_counts_are_told_of_each_post_that_stands_once_in_the_order_asked(
    engagements: Engagements, posts: Posts
) -> None:
    one, two, three = [(await posts.create(Draft(AUTHOR, "text", ()), "")).post.id for _ in range(3)]
    await engagements.engage(ACTOR, three, LIKE)
    await engagements.engage(ACTOR, two, LIKE)
    await posts.delete(AUTHOR, two)
    found = await engagements.counts([three, 5, one, two, three])
    assert list(found.items()) == [(three, (1, 0, 0)), (one, (0, 0, 0))]


async def test_traits_are_told_of_each_post_that_stands_once_in_the_order_asked(posts: Posts) -> None:
    tagged = (await posts.create(Draft(AUTHOR, "a #b #B #c", ()), "")).post.id
    plain = (await posts.create(Draft(AUTHOR, "text", ()), "")).post.id
    gone = (await posts.create(Draft(AUTHOR, "text", ()), "")).post.id
    reply = (await posts.create(Draft(AUTHOR, "re", (), reply_to=tagged), "")).post.id
    await posts.delete(AUTHOR, gone)
    traits = await posts.traits([reply, plain, 5, gone, tagged, plain])
    assert [(of_one.post_id, of_one.is_reply, len(of_one.topics)) for of_one in traits] == [
        (reply, True, 0),
        (plain, False, 0),
        (tagged, False, 2),
    ]
