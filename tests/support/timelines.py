"""Viewers whose home timelines stand in Redis: warm, as those of people who were here lately."""

from collections.abc import Sequence
from contextlib import suppress

from devmesh.mesh import Mesh
from feed_api import FeedApi
from polling import until
from settling import settled
from stored_keys import StoredKeys
from walks import each


async def warmed(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, viewers: Sequence[int], *, settle_seconds: float = 60.0
) -> None:
    """Let these viewers read, and return when the timelines that are made of it stand and are complete.

    Each has to follow somebody: nobody else needs a timeline. They read again where processes died that should have made
    one.
    """
    without = list(viewers)
    for _ in range(12):
        await each(without, lambda viewer: api.feed(viewer, limit="1"))
        with suppress(AssertionError):
            await until_standing(stored, without, seconds=10)
        without = [viewer for viewer in without if await stored.timeline(viewer) is None]
        if not without:
            break
    assert not without
    await settled(mesh, settle_seconds)


async def until_standing(stored: StoredKeys, viewers: Sequence[int], seconds: float = 30.0) -> None:
    """Return when all of these viewers have a timeline in Redis; AssertionError when not all have after so long."""

    async def standing() -> bool:
        return None not in [await stored.timeline(viewer) for viewer in viewers]

    await until(standing, f"timelines of all of {viewers}", seconds)


async def users(api: FeedApi, name: str, count: int) -> list[int]:
    """So many new users."""
    return await each(range(count), lambda number: api.create_user(f"{name} {number}"))


async def posts_in_turn(api: FeedApi, authors: Sequence[int], each_posts: int) -> list[int]:
    """The authors post in turn, one after the other; the ids, newest first."""
    created: list[int] = []
    for number in range(each_posts):
        for author in authors:
            post = await api.create_post(author, f"Post {number} of {author}")
            created.insert(0, int(post["id"]))
    return created
