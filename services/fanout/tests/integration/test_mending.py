"""Follows, unfollows and wishes make timelines equal to the truth again."""

import pytest
from feed.events.v1 import events_pb2
from feed.fanout.v1 import fanout_pb2
from feedkit import keys
from feedkit.errors import InvalidArgument

from .conftest import LENGTH, GraphEventKind, World

pytestmark = pytest.mark.integration


async def wish(world: World, viewer: int, author: int = 0) -> None:
    """Ask for a timeline, or one author's part of it, to be mended."""
    await world.fanout.Reconcile(fanout_pb2.ReconcileRequest(viewer_id=viewer, author_id=author))


async def test_a_follow_brings_earlier_posts_to_their_place_and_an_unfollow_takes_them_away(world: World) -> None:
    ann, bob = world.user(), world.user()
    reader = world.user(bob)
    await world.open(reader)
    posts = [world.write(author) for author in (ann, bob, ann, bob)]
    for post in (posts[1], posts[3]):
        await world.tell_of_post(post, bob)
    await world.settle()
    await world.follow(reader, ann)
    await world.settle()
    assert await world.shown(reader) == posts[::-1]
    await world.unfollow(reader, ann)
    await world.settle()
    assert await world.shown(reader) == [posts[3], posts[1]]


async def test_a_changed_follow_forgets_the_context_and_makes_no_timeline(world: World) -> None:
    ann = world.user()
    reader = world.user()
    await world.store.run(("SET", keys.context(reader), keys.value(b"stale")))
    await world.follow(reader, ann)
    await world.settle()
    assert await world.keys([keys.context(reader), keys.timeline(reader)]) == 0
    assert world.truth.asked["BatchGetRelationships"] == 0, "nothing was there to be mended"


async def test_a_mute_takes_earlier_posts_away_and_its_end_brings_them_back(world: World) -> None:
    ann, bob = world.user(), world.user()
    reader = world.user(ann, bob)
    await world.open(reader)
    posts = [await world.post(author) for author in (ann, bob, ann)]
    await world.settle()
    await world.cached(keys.context(reader), keys.hidden(reader))
    await world.mute(reader, ann)
    await world.settle()
    assert await world.shown(reader) == [posts[1]]
    assert await world.keys([keys.context(reader), keys.hidden(reader)]) == 0
    await world.unmute(reader, ann)
    await world.settle()
    assert await world.shown(reader) == posts[::-1]


async def test_follow_unfollow_and_follow_again_end_as_the_truth_is(world: World) -> None:
    ann = world.user()
    readers = [world.user() for _ in range(4)]
    await world.open(*readers)
    posts = [await world.post(ann) for _ in range(3)]
    for turn in range(5):
        for number, reader in enumerate(readers):
            await (world.unfollow if (turn + number) % 2 else world.follow)(reader, ann)
        posts.append(await world.post(ann))
    await world.settle()
    assert [await world.shown(reader) for reader in readers] == [posts[::-1], [], posts[::-1], []]


@pytest.mark.parametrize("kind", [events_pb2.GRAPH_EVENT_KIND_BLOCKED, events_pb2.GRAPH_EVENT_KIND_UNBLOCKED])
async def test_a_block_forgets_what_is_known_of_both_and_mends_nothing(world: World, kind: GraphEventKind) -> None:
    ann = world.user()
    reader = world.user()
    await world.open(reader, ann)
    stale = [key(user) for user in (ann, reader) for key in (keys.context, keys.hidden)]
    await world.cached(*stale)
    await world.tell_of_edge(reader, ann, kind)
    await world.settle()
    assert await world.keys(stale) == 0
    assert world.truth.asked["BatchGetRelationships"] == 0


@pytest.mark.parametrize("kind", [events_pb2.GRAPH_EVENT_KIND_FAVOURED, events_pb2.GRAPH_EVENT_KIND_UNFAVOURED])
async def test_a_favourite_makes_the_viewers_context_forgotten_and_nothing_else(
    world: World, kind: GraphEventKind
) -> None:
    ann = world.user()
    reader = world.user(ann)
    await world.open(reader, ann)
    kept = [keys.hidden(reader), keys.context(ann), keys.hidden(ann)]
    await world.cached(keys.context(reader), *kept)
    await world.tell_of_edge(reader, ann, kind)
    await world.settle()
    assert await world.keys([keys.context(reader)]) == 0
    assert await world.keys(kept) == len(kept)
    assert world.truth.asked["BatchGetRelationships"] == 0


async def test_a_rebuild_makes_the_timeline_of_a_viewer_who_had_none(world: World) -> None:
    ann, bob = world.user(), world.user()
    reader = world.user(ann, bob, active=False)
    posts = [world.write(author) for _ in range(LENGTH) for author in (ann, bob)]
    await wish(world, reader)
    await world.settle()
    assert await world.shown(reader) == posts[: -LENGTH - 1 : -1]
    tail = await world.timeline(reader)
    assert tail is not None
    assert tail.trailer.horizon == posts[-LENGTH - 1]
    assert reader in world.truth.active
    [life_ms] = await world.store.run(("PTTL", keys.timeline(reader)))
    assert 27 * 86_400_000 < life_ms <= 28 * 86_400_000
    newest = await world.post(ann)
    await world.settle()
    assert (await world.shown(reader) or [])[0] == newest


async def test_a_rebuild_replaces_whatever_was_there(world: World) -> None:
    ann = world.user()
    reader = world.user(ann)
    await world.open(reader, horizon=1 << 60)
    post = world.write(ann)
    await wish(world, reader)
    await world.settle()
    assert await world.shown(reader) == [post]


async def test_wishes_for_nobody_and_for_nothing_are_void(world: World) -> None:
    nobody = 1 << 40
    reader = world.user()
    await wish(world, nobody)
    await wish(world, nobody, reader)
    await wish(world, reader, nobody)
    await world.settle()
    assert await world.keys([keys.timeline(nobody), keys.timeline(reader)]) == 0


async def test_a_mass_follow_is_mended_by_as_many_reads_as_there_are_new_followees(world: World) -> None:
    authors = [world.user() for _ in range(30)]
    reader = world.user()
    await world.open(reader)
    posts = [world.write(author) for author in authors]
    for author in [*authors, *authors[:10]]:
        await world.follow(reader, author)
    await world.settle()
    assert await world.shown(reader) == posts[: -LENGTH - 1 : -1]


async def test_a_wish_for_no_viewer_is_refused(world: World) -> None:
    with pytest.raises(InvalidArgument):
        await wish(world, 0)
