"""Posts reach the timelines that exist, each once, in order, and no more than there is room for."""

import pytest

from .conftest import World

pytestmark = pytest.mark.integration


async def test_a_post_reaches_the_timelines_of_active_followers_alone(world: World) -> None:
    author = world.user()
    reader, absent, inactive, stranger = (
        world.user(author),
        world.user(author),
        world.user(author, active=False),
        world.user(),
    )
    await world.open(reader, inactive, stranger)
    post = await world.post(author)
    await world.settle()
    assert await world.shown(reader) == [post]
    assert await world.shown(absent) is None, "a push never makes a timeline"
    assert await world.shown(inactive) == await world.shown(stranger) == []
