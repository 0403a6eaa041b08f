"""One process leads at a time; another takes over soon after it dies, and at once when it ends in peace."""

import pytest
from fanout_service.leading import Leading
from feedkit.errors import Unavailable

SECONDS = 3.0


class World:
    """A lease, and a clock."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.is_away = False
        self.delay = 0.0
        self._holder = ""
        self._until = 0.0
        self.one, self.other = (Leading(self, name, SECONDS, lambda: self.seconds) for name in ("one", "other"))

    async def hold(self, name: str, seconds: float) -> bool:
        self._answer()
        self.seconds += self.delay
        if self.seconds < self._until and self._holder != name:
            return False
        self._holder, self._until = name, self.seconds + seconds
        return True

    async def give_up(self, name: str) -> None:
        self._answer()
        if self._holder == name:
            self._until = 0.0

    def _answer(self) -> None:
        if self.is_away:
            raise Unavailable.of_dependency("redis")


async def test_who_comes_first_leads_as_long_as_it_keeps_it_up() -> None:
    world = World()
    assert not world.one()
    for _ in range(5):
        await world.one.keep_up()
        await world.other.keep_up()
        assert (world.one(), world.other()) == (True, False)
        world.seconds += SECONDS - 0.1


async def test_another_takes_over_when_the_lease_of_one_who_died_ends() -> None:
    world = World()
    await world.one.keep_up()
    world.seconds += SECONDS
    await world.other.keep_up()
    assert (world.one(), world.other()) == (False, True)


async def test_a_zombie_knows_that_it_leads_no_longer_before_it_asks_anybody() -> None:
    world = World()
    await world.one.keep_up()
    world.seconds += 2 * SECONDS
    assert not world.one()
    await world.other.keep_up()
    await world.one.keep_up()
    assert (world.one(), world.other()) == (False, True)


async def test_one_whose_lease_was_slow_to_come_leads_no_longer_than_the_lease_says() -> None:
    world = World()
    world.delay = 1.0
    await world.one.keep_up()
    world.seconds += SECONDS - 1.0
    assert not world.one()


async def test_while_the_lease_cannot_be_renewed_it_still_lasts_and_then_ends() -> None:
    world = World()
    await world.one.keep_up()
    world.is_away = True
    with pytest.raises(Unavailable):
        await world.one.keep_up()
    assert world.one()
    world.seconds += SECONDS
    assert not world.one()


async def test_who_resigns_lets_another_lead_at_once() -> None:
    world = World()
    await world.one.keep_up()
    await world.one.resign()
    await world.other.keep_up()
    assert (world.one(), world.other()) == (False, True)


async def test_who_does_not_lead_takes_nothing_from_others_by_resigning() -> None:
    world = World()
    await world.one.keep_up()
    await world.other.resign()
    await world.other.keep_up()
    assert (world.one(), world.other()) == (True, False)
