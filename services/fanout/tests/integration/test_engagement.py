"""What people do with posts becomes features, and is counted anew, beside all that brings posts into timelines."""

import struct
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
from feed.events.v1 import events_pb2
from feed.fanout.v1 import fanout_pb2
from feedkit import feature_keys, kafka, key_scripts, keys
from feedkit.feature_keys import SIGNALS
from google.protobuf import message as protobuf

from .conftest import LIFE_MS, World, eventually, header

pytestmark = pytest.mark.integration

EngagementKind: TypeAlias = "events_pb2.EngagementEventKind.ValueType"

LIKED, UNLIKED = events_pb2.ENGAGEMENT_EVENT_KIND_LIKED, events_pb2.ENGAGEMENT_EVENT_KIND_UNLIKED
REPOSTED, REPLIED = events_pb2.ENGAGEMENT_EVENT_KIND_REPOSTED, events_pb2.ENGAGEMENT_EVENT_KIND_REPLIED
LESS = events_pb2.ENGAGEMENT_EVENT_KIND_LESS_LIKE_THIS
HIDDEN = events_pb2.ENGAGEMENT_EVENT_KIND_HIDDEN
DAY_MS = 86_400_000


class Crowd:
    """What people do with posts, as `post` tells of it, and what becomes of that."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def does(self, actor: int, post: int, *kinds: EngagementKind) -> None:
        """Somebody does something with a post."""
        for kind in kinds:
            event = events_pb2.EngagementEvent(
                actor_id=actor,
                post_id=post,
                author_id=self.world.truth.posts[post],
                kind=kind,
                occurred_at_ms=int(time.time() * 1000),
            )
            await self.tell(actor, event)

    async def sees(self, viewer: int, *posts: int, dwell_ms: int = 0) -> None:
        """Somebody sees posts."""
        authors = self.world.truth.posts
        seen = [events_pb2.SeenPost(post_id=post, author_id=authors[post], dwell_ms=dwell_ms) for post in posts]
        now = int(time.time() * 1000)
        await self.tell(viewer, events_pb2.ImpressionsEvent(viewer_id=viewer, posts=seen, occurred_at_ms=now))

    async def tell(self, key: int, message: protobuf.Message) -> None:
        """Any record on the topic."""
        await self.world.send(kafka.ENGAGEMENT_EVENTS, key, message)

    async def lag(self) -> int:
        """How many events are not handled."""
        return (await self.world.fanout.GetStatus(fanout_pb2.GetStatusRequest())).engagement_lag_events

    async def handled(self) -> None:
        """Wait until all is handled."""

        async def none_left() -> bool:
            return await self.lag() == 0

        await eventually(none_left, "handled")

    async def read(self, key: str, least_days: float = 2.5) -> bytes:
        """What a key holds, and will for so long."""
        raw, life = await self.world.store.run(("GET", key), ("PTTL", key))
        assert raw is not None, key
        assert life > least_days * DAY_MS
        return raw

    async def signals(self, post: int) -> dict[str, float]:
        """The sums of a post that are not 0."""
        numbers = struct.unpack_from(f">{len(SIGNALS)}f", await self.read(feature_keys.post_signals(post)), 28)
        return {name: number for name, number in zip(SIGNALS, numbers, strict=True) if number}

    async def author_signals(self, author: int) -> dict[str, float]:
        """The decayed sums of an author that are not 0."""
        raw = await self.read(feature_keys.author_signals(author), least_days=27)
        numbers = struct.unpack_from(f">{len(SIGNALS)}f", raw, 8)
        return {name: round(number, 3) for name, number in zip(SIGNALS, numbers, strict=True) if number}

    async def affinity(self, viewer: int) -> dict[int, float]:
        """A viewer's affinity to authors."""
        raw = await self.read(feature_keys.affinity(viewer), least_days=27)
        return {author: round(score, 3) for author, score in struct.iter_unpack(">qf", raw[8:])}

    async def seen(self, viewer: int) -> list[int]:
        """What a viewer has seen, oldest sight first."""
        raw = await self.read(feature_keys.seen(viewer), least_days=27)
        return [post for (post,) in struct.iter_unpack(">q", raw)]


@pytest.fixture
def crowd(world: World) -> Crowd:
    """People who do something with posts."""
    return Crowd(world)


async def test_what_people_do_with_a_post_becomes_its_signals_and_its_authors(world: World, crowd: Crowd) -> None:
    author, viewer, other = world.user(), world.user(), world.user()
    post, older = world.write(author), world.write(author)
    await crowd.sees(viewer, post, older, dwell_ms=2500)
    await crowd.sees(other, post)
    await crowd.does(viewer, post, LIKED, REPLIED)
    await crowd.does(other, post, LIKED, REPOSTED, UNLIKED, LESS)
    await crowd.does(other, older, HIDDEN)
    await crowd.handled()
    assert await crowd.signals(post) == {
        "impressions": 2,
        "likes": 1,
        "reposts": 1,
        "replies": 1,
        "dwell_seconds": 2.5,
        "negatives": 1,
    }
    assert await crowd.signals(older) == {"impressions": 1, "dwell_seconds": 2.5, "negatives": 1}
    assert await crowd.author_signals(author) == {
        "impressions": 3,
        "likes": 1,
        "reposts": 1,
        "replies": 1,
        "dwell_seconds": 5,
        "negatives": 2,
    }


async def test_what_a_viewer_does_becomes_affinity_to_others_and_what_they_have_seen(
    world: World, crowd: Crowd
) -> None:
    author, other = world.user(), world.user()
    viewer = world.user()
    posts, own = [world.write(author), world.write(author), world.write(other)], world.write(viewer)
    await crowd.sees(viewer, *posts, own, dwell_ms=6000)
    await crowd.does(viewer, posts[0], REPLIED)
    await crowd.does(viewer, posts[2], HIDDEN)
    await crowd.does(viewer, own, LIKED)
    await crowd.sees(viewer, posts[0])
    await crowd.handled()
    assert await crowd.affinity(viewer) == {author: 4.0, other: -5.5}, "and none to oneself"
    assert await crowd.seen(viewer) == [posts[1], own, -posts[2], posts[0]]


async def test_counts_that_changed_are_forgotten_with_the_lease_of_who_read_earlier(world: World, crowd: Crowd) -> None:
    author, viewer = world.user(), world.user()
    liked, leased, only_seen = world.write(author), world.write(author), world.write(author)
    older = keys.encode_counts(keys.Counts(0, 0, 0))
    await world.cached(keys.counts(liked), keys.counts(only_seen))
    token = key_scripts.new_token()
    await world.store.run(key_scripts.take_lease(keys.counts(leased), token))
    await crowd.sees(viewer, liked, leased, only_seen)
    await crowd.does(viewer, only_seen, LESS)
    await crowd.does(viewer, liked, LIKED)
    await crowd.does(viewer, leased, LIKED, UNLIKED)
    await crowd.handled()
    [filled] = await world.store.run(key_scripts.fill(keys.counts(leased), token, older, LIFE_MS))
    assert filled == 0
    assert await world.keys([keys.counts(liked), keys.counts(leased)]) == 0
    assert await world.keys([keys.counts(only_seen)]) == 1


@asynccontextmanager
async def signals_refused(world: World) -> AsyncGenerator[None]:
    """A Redis that takes all but the signals of posts, until the end of the block."""
    taken = (
        "tl:",
        "ctx:",
        "post:",
        "counts:",
        "own:",
        "recents:",
        "celebrity-line:",
        "fanout-leader:",
        "pulled-unseen:",
    )
    allowed = [f"~{name}*" for name in taken]
    await world.store.run(("ACL", "SETUSER", "default", "resetkeys", *allowed))
    try:
        yield
    finally:
        await world.store.run(("ACL", "SETUSER", "default", "allkeys"))


async def test_engagement_that_cannot_be_handled_delays_no_post_and_is_not_waited_for(
    world: World, crowd: Crowd
) -> None:
    author = world.user()
    viewer = world.user(author)
    await world.open(viewer)
    liked = world.write(author)
    await world.cached(keys.counts(liked))
    async with signals_refused(world):
        await crowd.does(viewer, liked, LIKED)

        async def counts_forgotten() -> bool:
            return await world.keys([keys.counts(liked)]) == 0

        await eventually(counts_forgotten, "counts are forgotten first")
        post = await world.post(author)
        await world.settle()
        assert await world.shown(viewer) == [post]
        status = await world.fanout.GetStatus(fanout_pb2.GetStatusRequest())
        assert (status.engagement_lag_events, status.lag_events) == (1, 0)
    await crowd.handled()
    assert (await crowd.signals(liked))["likes"] == 1


async def test_a_flood_is_taken_in_and_sums_up(world: World, crowd: Crowd) -> None:
    author = world.user()
    post_ids = [world.write(author) for _ in range(3)]
    fans = [world.user() for _ in range(100)]
    for fan in fans:
        await crowd.sees(fan, *post_ids)
        await crowd.does(fan, post_ids[0], LIKED)
    await crowd.handled()
    assert await crowd.signals(post_ids[0]) == {"impressions": 100, "likes": 100}
    assert (await crowd.author_signals(author))["impressions"] == 300


async def test_what_comes_late_of_a_deleted_user_makes_nothing_again(world: World, crowd: Crowd) -> None:
    author, user = world.user(), world.user()
    post = world.write(author)
    await crowd.does(user, post, LIKED)
    await crowd.sees(user, post)
    await crowd.handled()
    await world.close(user)
    await world.settle()
    await crowd.does(user, post, UNLIKED)
    await crowd.sees(user, post)
    await crowd.handled()
    assert await crowd.affinity(user) == {}
    assert await crowd.read(feature_keys.seen(user)) == feature_keys.ENDED_SEEN
    assert await crowd.signals(post) == {"impressions": 2}, "others' features go on"


async def test_what_nobody_can_make_sense_of_is_set_aside_and_holds_up_nobody(world: World, crowd: Crowd) -> None:
    author, viewer = world.user(), world.user()
    post = world.write(author)
    poison = {
        "the kind": events_pb2.EngagementEvent(actor_id=viewer, post_id=post, author_id=author, occurred_at_ms=1),
        "post_id": events_pb2.EngagementEvent(actor_id=viewer, author_id=author, kind=LIKED, occurred_at_ms=1),
        "viewer_id": events_pb2.ImpressionsEvent(occurred_at_ms=1),
        "'feed.events.v1.EngagementEvent' or 'feed.events.v1.ImpressionsEvent'": events_pb2.EraseWish(user_id=viewer),
    }
    for message in poison.values():
        await crowd.tell(viewer, message)
    await crowd.does(viewer, post, LIKED)
    await crowd.handled()
    assert await crowd.signals(post) == {"likes": 1}
    letters = [letter for letter in await world.records(kafka.DEAD_LETTERS) if letter.key() == str(viewer).encode()]
    assert len(letters) == len(poison)
    reasons = [header(letter, "reason") for letter in letters]
    assert all(any(told in reason for reason in reasons) for told in poison), reasons
    assert {header(letter, "topic") for letter in letters} == {kafka.ENGAGEMENT_EVENTS}
