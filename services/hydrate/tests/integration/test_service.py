"""Hydration through real processes: every outcome, bad requests, and dependencies that are down or hang."""

import asyncio
import os
import re
import signal
from collections.abc import Generator
from contextlib import contextmanager

import asyncpg
import pytest
from devmesh.mesh import Mesh
from feed.hydrate.v1 import hydrate_pb2
from feedkit import key_scripts, keys, redis
from feedkit.errors import FeedError, InvalidArgument

from .conftest import Services

pytestmark = pytest.mark.integration

UNKNOWN = 4_611_686_018_427_387_904
"""An id that nobody makes for decades."""


@contextmanager
def down(mesh: Mesh, process: str) -> Generator[None]:
    """A process that has been killed, until the end of the block."""
    mesh.kill(process)
    try:
        yield
    finally:
        mesh.restart(process)


@contextmanager
def hanging(mesh: Mesh, process: str) -> Generator[None]:
    """A process that takes calls and answers none, until the end of the block."""
    pid = mesh.addresses.pids[process]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def unavailable(post_id: int, dependency: str) -> hydrate_pb2.Hydration:
    """The outcome of a post that cannot be loaded now."""
    return hydrate_pb2.Hydration(post_id=post_id, unavailable=hydrate_pb2.Unavailable(dependency=dependency))


def not_found(post_id: int) -> hydrate_pb2.Hydration:
    """The outcome of a post that is not there."""
    return hydrate_pb2.Hydration(post_id=post_id, withheld=hydrate_pb2.WITHHELD_REASON_NOT_FOUND)


async def until_filled(cache: redis.Redis, *some_keys: str) -> None:
    """Return once all keys hold values. Fills come behind the answers."""
    for _ in range(1000):
        [values] = await cache.run(key_scripts.get_many(some_keys))
        if None not in map(keys.payload, values):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"not filled after 10 s: {some_keys}")


async def commands(cache: redis.Redis) -> dict[str, int]:
    """How often Redis was given each command since its statistics were reset, but for asking and resetting."""
    [answer] = await cache.run(("INFO", "commandstats"))
    calls = re.findall(r"cmdstat_(\S+):calls=(\d+)", answer.decode())
    return {name: int(number) for name, number in calls if name not in {"info", "config|resetstat"}}


async def test_a_post_comes_whole_and_with_its_authors_name(services: Services) -> None:
    post = await services.posted(await services.user("Ann"), "hello 👋")
    assert await services.hydrate(post.id) == [
        hydrate_pb2.Hydration(post_id=post.id, post=hydrate_pb2.HydratedPost(post=post, author_name="Ann"))
    ]


async def test_known_unknown_and_repeated_ids_are_answered_once_each_in_order(services: Services) -> None:
    author = await services.user()
    first, second = await services.posted(author), await services.posted(author)
    answer = await services.hydrate(second.id, UNKNOWN, first.id, second.id, UNKNOWN)
    assert [(one.post_id, one.WhichOneof("outcome")) for one in answer] == [
        (second.id, "post"),
        (UNKNOWN, "withheld"),
        (first.id, "post"),
    ]


async def test_a_deleted_post_is_withheld_at_once(services: Services) -> None:
    post = await services.posted(await services.user())
    await services.delete(post)
    assert await services.hydrate(post.id) == [not_found(post.id)]


async def test_a_post_whose_author_is_gone_is_withheld(mesh: Mesh, services: Services) -> None:
    author = await services.user()
    post = await services.posted(author)
    connection = await asyncpg.connect(mesh.addresses.postgres["graph"])
    await connection.execute("DELETE FROM users WHERE id = $1", author)
    await connection.close()
    assert await services.hydrate(post.id) == [
        hydrate_pb2.Hydration(post_id=post.id, withheld=hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND)
    ]


async def test_nothing_asked_is_nothing_answered(services: Services) -> None:
    assert await services.hydrate() == []


async def test_the_largest_batch_of_the_largest_posts_fits(services: Services) -> None:
    author = await services.user()
    posts = await asyncio.gather(*(services.posted(author, "👋" * 5000) for _ in range(100)))
    answer = await services.hydrate(*(post.id for post in posts))
    assert [one.post.post.content for one in answer] == ["👋" * 5000] * 100


@pytest.mark.parametrize(
    ("post_ids", "field"),
    [(range(1, 10_001), "post_ids"), ([1, 0], "post_ids[1]"), ([-5], "post_ids[0]")],
    ids=["10,000 ids", "id 0", "negative id"],
)
async def test_bad_ids_are_refused_and_named(services: Services, post_ids: list[int], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await services.hydrate(*post_ids)
    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize("author_ids", [[7], [7, 7, 7]], ids=["fewer", "more"])
async def test_authors_have_to_be_as_many_as_posts_or_none(services: Services, author_ids: list[int]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await services.hydrate(1, 2, author_ids=author_ids)
    assert [violation.field for violation in refused.value.violations] == ["author_ids"]


async def test_an_author_that_the_caller_got_wrong_is_not_believed(services: Services) -> None:
    ann, bob = await services.user("Ann"), await services.user("Bob")
    post = await services.posted(ann)
    for _ in ("from the truth", "from the cache"):
        (answer,) = await services.hydrate(post.id, author_ids=[bob])
        assert answer.post.author_name == "Ann"


# --- the cache ---------------------------------------------------------------------------------------------------------


async def test_a_page_that_is_cached_is_one_round_trip_to_redis_and_no_call(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    authors = [await services.user(name) for name in ("Ann", "Bob", "Cleo")]
    posts = [await services.posted(authors[place % 3]) for place in range(20)]
    post_ids, author_ids = [post.id for post in posts], [post.author_id for post in posts]
    cold = await services.hydrate(*post_ids, author_ids=author_ids)
    assert [one.post.post for one in cold] == posts
    await until_filled(cache, *map(keys.post, post_ids), *map(keys.user, authors))
    with down(mesh, "post"), down(mesh, "graph"):
        await cache.run(("CONFIG", "RESETSTAT"))
        warm = await services.hydrate(*post_ids, author_ids=author_ids)
        assert await commands(cache) == {"mget": 1}
    assert warm == cold


async def test_a_delete_shows_at_the_very_next_look_however_many_are_filling_in(services: Services) -> None:
    post = await services.posted(await services.user())
    for place in range(30):
        fillers = [asyncio.create_task(services.hydrate(post.id)) for _ in range(5)]
        await asyncio.sleep(place / 10_000)  # not waiting for anything: a different moment each time
        await services.delete(post)
        assert await services.hydrate(post.id) == [not_found(post.id)]
        await asyncio.gather(*fillers)
        assert await services.hydrate(post.id) == [not_found(post.id)]
        post = await services.posted(post.author_id)


async def test_what_is_cached_is_shown_though_others_cannot_be_loaded(
    mesh: Mesh, services: Services, cache: redis.Redis
) -> None:
    author = await services.user()
    cached, other = await services.posted(author), await services.posted(author)
    (shown,) = await services.hydrate(cached.id)
    await until_filled(cache, keys.post(cached.id), keys.user(author))
    with down(mesh, "post"):
        assert await services.hydrate(cached.id, other.id) == [shown, unavailable(other.id, "post")]


async def test_without_redis_everything_is_shown_and_it_is_ready(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    shown = await services.hydrate(post.id)
    with down(mesh, "redis"):
        assert await services.hydrate(post.id) == shown
        mesh.terminate("hydrate")
        mesh.restart("hydrate")
        assert await services.hydrate(post.id) == shown


async def test_a_redis_that_hangs_costs_little_and_then_nothing(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    shown = await services.hydrate(post.id)
    with hanging(mesh, "redis"):
        assert await services.hydrate(post.id, seconds=2.0) == shown
        answers = [await services.hydrate(post.id, seconds=0.4) for _ in range(20)]
    assert answers == [shown] * 20


# --- neighbours that are away ------------------------------------------------------------------------------------------


async def test_without_the_service_post_everything_is_unavailable(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    with down(mesh, "post"):
        answer = await services.hydrate(post.id, UNKNOWN)
    assert answer == [unavailable(post.id, "post"), unavailable(UNKNOWN, "post")]


async def test_without_the_service_graph_posts_that_exist_are_unavailable(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    with down(mesh, "graph"):
        answer = await services.hydrate(post.id, UNKNOWN)
    assert answer == [unavailable(post.id, "graph"), not_found(UNKNOWN)]


@pytest.mark.parametrize("dependency", ["post", "graph"])
async def test_a_dependency_that_hangs_is_told_within_the_deadline(
    mesh: Mesh, services: Services, dependency: str
) -> None:
    post = await services.posted(await services.user())
    with hanging(mesh, dependency):
        answer = await services.hydrate(post.id, seconds=1.0)
    assert answer == [unavailable(post.id, dependency)]


async def test_it_recovers_unaided(mesh: Mesh, services: Services) -> None:
    post = await services.posted(await services.user())
    with down(mesh, "post"):
        await services.hydrate(post.id)
    for _ in range(200):
        (answer,) = await services.hydrate(post.id)
        if answer.HasField("post"):
            return
        await asyncio.sleep(0.05)
    pytest.fail("the post was still not loaded after 10 s")


async def test_it_stops_in_order_when_asked(mesh: Mesh, services: Services) -> None:
    try:
        assert mesh.terminate("hydrate") == 0
        with pytest.raises(FeedError):
            await services.hydrate(1, seconds=0.5)
    finally:
        mesh.restart("hydrate")
