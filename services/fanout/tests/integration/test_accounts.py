"""Accounts that are suspended, restored and deleted: caches forget them, and a deleted one is erased, part by part."""

import grpc
import pytest
from feed.events.v1 import events_pb2
from feedkit import feature_keys, kafka, keys

from .conftest import UserEventKind, World, eventually, header

pytestmark = pytest.mark.integration

EVERYTHING = (keys.user, keys.context, keys.hidden, keys.own, keys.recents, keys.timeline, feature_keys.orders)
ENDED = {
    feature_keys.affinity: feature_keys.ENDED_AFFINITY,
    feature_keys.seen: feature_keys.ENDED_SEEN,
    feature_keys.author_signals: feature_keys.ENDED_AUTHOR_SIGNALS,
}
"""What is left of a deleted user so that nothing else is made."""


@pytest.mark.parametrize("kind", [events_pb2.USER_EVENT_KIND_SUSPENDED, events_pb2.USER_EVENT_KIND_RESTORED])
async def test_how_a_user_stood_is_forgotten_and_their_timeline_kept(world: World, kind: UserEventKind) -> None:
    user = world.user()
    await world.open(user)
    await world.cached(keys.user(user), keys.context(user))
    await world.tell_of_account(user, kind)
    await world.settle()
    assert await world.keys([keys.user(user)]) == 0
    assert await world.keys([keys.context(user), keys.timeline(user)]) == 2
    assert world.truth.asked["EraseUser"] == 0


async def test_a_chosen_view_makes_the_context_forgotten_and_nothing_else(world: World) -> None:
    user = world.user()
    await world.open(user)
    kept = [keys.user(user), keys.hidden(user)]
    await world.cached(keys.context(user), *kept)
    await world.tell_of_account(user, events_pb2.USER_EVENT_KIND_VIEW_CHOSEN)
    await world.settle()
    assert await world.keys([keys.context(user)]) == 0
    assert await world.keys([*kept, keys.timeline(user)]) == len(kept) + 1
    assert world.truth.asked["EraseUser"] == 0


async def test_a_deleted_user_is_forgotten_and_erased_to_the_end(world: World) -> None:
    ann, reader = world.user(), world.user()
    user = world.user(ann)
    fans = world.crowd(5, user)
    world.truth.follows[reader].add(user)
    await world.open(user)
    await world.cached(*[key(user) for key in (*EVERYTHING, *ENDED) if key is not keys.timeline])
    for _ in range(4):
        world.write(user)
    kept = world.write(ann)
    await world.close(user)
    await world.settle()
    assert await world.keys([key(user) for key in EVERYTHING]) == 0
    assert await world.store.run(*[("GET", key(user)) for key in ENDED]) == list(ENDED.values())
    assert user not in world.truth.posts.values()
    assert kept in world.truth.posts
    assert not any(user in world.truth.follows[fan] for fan in fans)
    assert world.truth.follows[user] == set()
    assert world.truth.asked["EraseUser"] > 6, "a part at a time"


async def test_it_is_not_settled_while_anything_is_left_of_a_deleted_user(world: World) -> None:
    user = world.user()
    world.write(user)
    world.truth.failing["EraseAuthor"] = grpc.StatusCode.UNAVAILABLE
    await world.close(user)

    async def tried_again() -> bool:
        return world.truth.asked["EraseAuthor"] >= 3

    await eventually(tried_again, "tried again")
    progress = await world.progress()
    assert progress.open_reconciles == 1
    assert not progress.settled
    world.truth.failing.clear()
    await world.settle()
    assert user not in world.truth.posts.values()


async def test_a_wish_to_erase_somebody_who_is_not_deleted_is_void(world: World) -> None:
    user, nobody = world.user(), 1 << 41
    post = world.write(user)
    for someone in (user, nobody):
        await world.send(kafka.RECONCILE, someone, events_pb2.EraseWish(user_id=someone))
    await world.settle()
    assert post in world.truth.posts
    letters = [letter for letter in await world.records(kafka.DEAD_LETTERS) if letter.key() == str(user).encode()]
    assert letters == []


async def test_a_follow_that_committed_beside_the_deletion_is_erased_too(world: World) -> None:
    user, late = world.user(), world.user()
    await world.close(user)
    await world.settle()
    await world.follow(late, user)
    await world.settle()
    assert world.truth.follows[late] == set()


@pytest.mark.parametrize("topic", [kafka.GRAPH_EVENTS, kafka.RECONCILE])
async def test_a_type_that_the_topic_does_not_carry_is_set_aside_with_all_that_it_does(
    world: World, topic: str
) -> None:
    user = world.user()
    await world.send(topic, user, events_pb2.PostEvent(post_id=1, author_id=1, kind=events_pb2.POST_EVENT_KIND_CREATED))
    await world.settle()
    [letter] = [letter for letter in await world.records(kafka.DEAD_LETTERS) if letter.key() == str(user).encode()]
    carried = {
        kafka.GRAPH_EVENTS: "'feed.events.v1.GraphEvent' or 'feed.events.v1.UserEvent'",
        kafka.RECONCILE: "'feed.events.v1.ReconcileWish' or 'feed.events.v1.EraseWish'",
    }
    assert header(letter, "reason") == f"the header `type` is 'feed.events.v1.PostEvent' instead of {carried[topic]}"
