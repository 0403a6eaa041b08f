"""A process is ready once it has reached the services that it needs, and stays so."""

import pytest
from feedkit.errors import Unavailable
from hydrate_service.readiness import once


async def test_not_ready_before_the_service_is_reached() -> None:
    with pytest.raises(Unavailable, match="post"):
        await once(lambda: False, "post")()


async def test_ready_as_soon_as_the_service_is_reached() -> None:
    states = iter([False, True])
    check = once(lambda: next(states), "post")
    with pytest.raises(Unavailable):
        await check()
    await check()


async def test_still_ready_when_the_service_is_lost_again() -> None:
    states = iter([True, False])
    check = once(lambda: next(states), "post")
    await check()
    await check()
    assert next(states) is False, "a check that has passed looks no more"
