"""Posts reach the timelines that exist, each once and in order; pulled authors' posts are announced instead."""

import asyncio

import grpc
import pytest
from feed.events.v1 import events_pb2
from feedkit import kafka, keys

from .conftest import CHUNK, LENGTH, THRESHOLD, World, eventually, header

pytestmark = pytest.mark.integration


async def test_a_post_reaches_the_timelines_of_active_followers_alone(world: World) -> None:
    author = world.user()
    reader, absent, inactive = world.user(author), world.user(author), world.user(author, active=False)
    stranger = world.user()
    await world.open(reader, inactive, stranger)
    post = await world.post(author)
    await world.settle()
    assert await world.shown(reader) == [post]
    assert await world.shown(absent) is None, "a push never makes a timeline"
    assert await world.shown(inactive) == await world.shown(stranger) == []


async def test_posts_of_several_authors_stand_in_order_and_once_however_often_they_are_told_of(world: World) -> None:
    authors = [world.user() for _ in range(3)]
    reader = world.user(*authors)
    await world.open(reader)
    posts = [world.write(authors[number % 3]) for number in range(9)]
    for post in [*posts[::-1], *posts[3:6]]:
        await world.tell_of_post(post, world.truth.posts[post])
    await world.settle()
    assert await world.shown(reader) == posts[::-1]


async def test_a_full_timeline_keeps_the_newest_and_raises_its_horizon(world: World) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    posts = [await world.post(author) for _ in range(LENGTH + 5)]
    await world.settle()
    tail = await world.timeline(reader)
    assert tail is not None
    assert tail.columns(0, tail.length)[0] == tuple(posts[5:])
    assert tail.trailer.horizon == posts[4]


async def test_more_followers_than_a_chunk_holds_are_all_reached(world: World) -> None:
    author = world.user()
    followers = world.crowd(2 * CHUNK + 3, author)
    await world.open(*followers)
    posts = [await world.post(author) for _ in range(2)]
    await world.settle()
    for follower in followers:
        assert await world.shown(follower) == posts[::-1]


async def test_a_pulled_authors_post_is_added_to_their_recents_and_announced(world: World) -> None:
    author = world.user()
    followers = world.crowd(THRESHOLD, author)
    await world.open(*followers)
    older = world.write(author)
    await world.post_list(keys.recents(author), older)
    announced: list[int] = []
    listening = asyncio.Event()
    async with world.store.subscribed(
        keys.RECENTS_CHANGED, lambda message: announced.append(keys.decode_id(message)), listening.set
    ):
        await listening.wait()
        post = await world.post(author)
        await world.settle()
    assert await world.listed(keys.recents(author)) == (post, older)
    assert announced == [author]
    assert author in world.truth.pulled
    assert await world.shown(followers[0]) == [], "nobody is pushed to"


async def test_it_is_not_settled_while_a_timeline_may_not_know_of_a_pulled_post(world: World) -> None:
    author = world.user()
    world.truth.pulled.add(author)
    await world.post(author)

    async def unseen() -> bool:
        progress = await world.progress()
        return progress.unseen_pulled_ms > 0 and not progress.settled

    await eventually(unseen, "announced")
    await world.settle()


async def test_caches_are_kept_right_by_the_events_too(world: World) -> None:
    author = world.user()
    older, post = world.write(author), world.write(author)
    own, recents = keys.own(author), keys.recents(author)
    for name in (own, recents):
        await world.post_list(name, older)
    await world.cached(keys.post(post), keys.post(older))
    await world.tell_of_post(post, author)
    await world.tell_of_post(older, author, events_pb2.POST_EVENT_KIND_EDITED)
    await world.settle()
    assert await world.keys([keys.post(post), keys.post(older)]) == 0
    assert await world.listed(own) == (post, older)
    assert await world.listed(recents) == (post, older), "though the author is not pulled: they may be some day"


async def test_lists_that_nobody_has_filled_in_are_not_made(world: World) -> None:
    author = world.user()
    await world.post(author)
    await world.settle()
    assert await world.keys([keys.own(author), keys.recents(author)]) == 0


@pytest.mark.parametrize("followers", [2, CHUNK + 1])
async def test_deleted_posts_are_cleaned_out_of_timelines_and_lists(world: World, followers: int) -> None:
    author, other = world.user(), world.user()
    crowd = [world.user(author, other) for _ in range(followers)]
    await world.open(*crowd)
    posts = [await world.post(author if number % 2 else other) for number in range(6)]
    for name in (keys.own(author), keys.recents(author)):
        await world.post_list(name, *posts[5:0:-2])
    await world.settle()
    await world.cached(keys.post(posts[1]), keys.post(posts[3]))
    await world.delete(posts[1], posts[3])
    await world.settle()
    for follower in crowd:
        assert await world.shown(follower) == [posts[5], posts[4], posts[2], posts[0]]
    gone = [keys.post(posts[1]), keys.post(posts[3]), keys.own(author), keys.recents(author)]
    assert await world.keys(gone) == 0


async def test_a_pulled_authors_deleted_post_is_cleaned_out_of_the_lists_alone(world: World) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    before = await world.post(author)
    await world.settle()
    world.truth.pulled.add(author)
    await world.post_list(keys.recents(author), before)
    await world.delete(before)
    await world.settle()
    assert await world.keys([keys.recents(author)]) == 0
    assert await world.shown(reader) == [before], "which readers ignore, and hydrate would withhold"


async def test_a_post_that_is_deleted_before_it_is_delivered_is_never_delivered(world: World) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    world.truth.failing["ClassifyAuthors"] = grpc.StatusCode.UNAVAILABLE
    first = await world.post(author)
    gone, kept = await world.post(author), await world.post(author)
    await world.delete(gone)
    world.truth.failing.clear()
    await world.settle()
    assert await world.shown(reader) == [kept, first]


async def test_what_a_deleted_author_wrote_is_erased_and_not_delivered(world: World) -> None:
    author = world.user()
    reader = world.user(author)
    await world.open(reader)
    world.truth.deleted.add(author)
    await world.post(author)
    await world.settle()
    assert await world.shown(reader) == []
    assert author not in world.truth.posts.values()


async def test_authors_of_a_batch_are_classified_in_one_call(world: World) -> None:
    """Many events wait while the first is worked on, and are then taken together."""
    authors = [world.user() for _ in range(40)]
    reader = world.user(*authors)
    await world.open(reader)
    await world.producer.send_many(
        kafka.POST_EVENTS,
        [
            (
                author,
                events_pb2.PostEvent(
                    post_id=world.write(author), author_id=author, kind=events_pb2.POST_EVENT_KIND_CREATED
                ),
            )
            for author in authors
        ],
    )
    await world.settle()
    assert len(await world.shown(reader) or ()) == LENGTH
    assert world.truth.asked["ClassifyAuthors"] < len(authors) / 2


@pytest.mark.parametrize("traceparent", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-nonsense"])
async def test_chunks_carry_the_trace_of_the_post_on_and_a_malformed_one_is_ignored(
    world: World, traceparent: str
) -> None:
    author = world.user()
    followers = world.crowd(CHUNK + 1, author)
    await world.open(*followers)
    event = events_pb2.PostEvent(post_id=world.write(author), author_id=author, kind=events_pb2.POST_EVENT_KIND_CREATED)
    headers = {"type": event.DESCRIPTOR.full_name, "traceparent": traceparent}
    await world.producer.send_record(kafka.POST_EVENTS, str(author), event.SerializeToString(), headers)
    await world.settle()
    assert await world.shown(followers[-1]) == [event.post_id]
    chunks = [
        record
        for record in await world.records(kafka.FANOUT_CHUNKS)
        if events_pb2.FanoutChunk.FromString(record.value() or b"").post_id == event.post_id
    ]
    assert len(chunks) == 2
    if "nonsense" not in traceparent:
        assert {header(chunk, "traceparent").split("-")[1] for chunk in chunks} == {traceparent.split("-")[1]}
