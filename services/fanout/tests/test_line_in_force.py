"""Every process knows where the celebrity line is; whoever leads moves it, and nobody else."""

import pytest
from fanout_service.celebrity_line import Cause, CelebrityLine, Limits, Line
from fanout_service.line_in_force import KNOWN_SECONDS, LineControl, LineInForce
from feedkit.errors import Unavailable

LIMITS = Limits(configured=10_000, floor=1000, lag_limit_ms=10_000, lag_clear_ms=2000, clear_for_seconds=60)
FALLEN = Line(2500, Cause.LAG, 7)


class World:
    """A store, a clock, a lag, and who leads."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.stored: Line | None = None
        self.is_away = False
        self.seconds = 1000.0
        self.lag: int | None = 0
        self.lag_was_asked = 0
        self.leads = True
        self.in_force = self.process(limits)
        self.control = self.controlled(self.in_force, limits)

    def process(self, limits: Limits = LIMITS) -> LineInForce:
        """Another process."""
        return LineInForce(self, CelebrityLine(limits), lambda: self.seconds, self.now_ms)

    def controlled(self, in_force: LineInForce, limits: Limits = LIMITS) -> LineControl:
        """Its control."""
        return LineControl(
            in_force,
            CelebrityLine(limits),
            self.lag_ms,
            lambda: self.leads,
            clock=lambda: self.seconds,
            now_ms=self.now_ms,
        )

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    async def lag_ms(self) -> int:
        self.lag_was_asked += 1
        if self.lag is None:
            raise Unavailable.of_dependency("kafka")
        return self.lag

    async def read(self) -> Line | None:
        self._answer()
        return self.stored

    async def write(self, line: Line) -> None:
        self._answer()
        self.stored = line

    def _answer(self) -> None:
        if self.is_away:
            raise Unavailable.of_dependency("redis")


async def test_until_something_is_heard_the_setting_holds() -> None:
    world = World()
    assert world.in_force.line == (10_000, Cause.CONFIGURED, 1_000_000)
    world.seconds += 5
    assert world.in_force.line == (10_000, Cause.CONFIGURED, 1_000_000), "since it began"


async def test_all_processes_tell_the_same_of_what_one_has_moved() -> None:
    world = World()
    world.seconds += 5
    other = world.process()
    world.lag = 11_000
    await world.control.step()
    assert world.in_force.line == (5000, Cause.LAG, 1_005_000)
    await other.refresh()
    assert other.line == world.in_force.line
    assert other.threshold == 5000


async def test_where_the_line_cannot_be_learnt_the_last_one_holds_for_a_while_and_then_the_setting() -> None:
    world = World()
    world.stored = FALLEN
    await world.in_force.refresh()
    world.is_away = True
    world.seconds += KNOWN_SECONDS - 0.1
    with pytest.raises(Unavailable):
        await world.in_force.refresh()
    assert world.in_force.line == FALLEN
    world.seconds += 0.2
    assert world.in_force.line[:2] == (10_000, Cause.CONFIGURED)
    world.is_away = False
    await world.in_force.refresh()
    assert world.in_force.line == FALLEN


async def test_a_key_that_vanished_says_nothing_and_is_written_again() -> None:
    world = World()
    world.stored = FALLEN
    world.lag = 5000
    await world.in_force.refresh()
    world.stored = None
    await world.in_force.refresh()
    assert world.in_force.line == FALLEN
    await world.control.step()
    assert world.stored == FALLEN


async def test_the_setting_is_told_too_so_that_all_know_since_when() -> None:
    world = World()
    await world.control.step()
    assert world.stored == (10_000, Cause.CONFIGURED, 1_000_000)


async def test_another_setting_takes_effect_at_once() -> None:
    world = World()
    world.stored = Line(10_000, Cause.CONFIGURED, 7)
    raised = world.process(LIMITS._replace(configured=20_000))
    await raised.refresh()
    assert raised.line == (20_000, Cause.CONFIGURED, 1_000_000)
    await world.controlled(raised, LIMITS._replace(configured=20_000)).step()
    assert world.stored == (20_000, Cause.CONFIGURED, 1_000_000)


async def test_who_does_not_lead_moves_nothing_and_asks_nobody() -> None:
    world = World()
    world.leads, world.lag = False, 11_000
    await world.control.step()
    assert world.stored is None
    assert world.lag_was_asked == 0


async def test_who_stopped_leading_while_it_asked_for_the_lag_moves_nothing() -> None:
    world = World()
    lag_ms = world.lag_ms

    async def slow() -> int:
        world.leads = False
        return await lag_ms()

    world.lag = 11_000
    control = LineControl(world.in_force, CelebrityLine(LIMITS), slow, lambda: world.leads)
    await control.step()
    assert world.stored is None


async def test_a_lag_that_nobody_tells_moves_nothing() -> None:
    world = World()
    world.stored, world.lag = FALLEN, None
    for _ in range(30):
        await world.control.step()
        world.seconds += 5
    assert world.stored == FALLEN


@pytest.mark.parametrize("interruption", ["does not lead", "does not hear"])
async def test_the_calm_counts_only_while_it_is_looked_at(interruption: str) -> None:
    world = World()
    world.stored = FALLEN
    await world.control.step()
    if interruption == "does not lead":
        world.leads = False
        await world.control.step()
        world.leads = True
    else:
        world.is_away = True
        with pytest.raises(Unavailable):
            await world.control.step()
        world.is_away = False
    world.seconds += 61
    await world.control.step()
    assert world.stored == FALLEN
    world.seconds += 61
    await world.control.step()
    assert world.stored.threshold == 5000


async def test_where_the_line_never_moves_nobody_asks_for_the_lag() -> None:
    world = World(LIMITS._replace(configured=0))
    await world.control.step()
    assert world.lag_was_asked == 0
    assert world.stored == (0, Cause.CONFIGURED, 1_000_000)


async def test_two_who_believe_to_lead_stay_within_the_limits() -> None:
    world = World()
    other = world.controlled(world.process())
    world.lag = 11_000
    for _ in range(5):
        await world.control.step()
        await other.step()
    assert world.stored
    assert world.stored.threshold == 1000
    world.lag = 0
    for _ in range(60):
        world.seconds += 5
        await world.control.step()
        await other.step()
    assert world.stored[:2] == (10_000, Cause.CONFIGURED)


async def test_it_is_calm_where_this_process_leads_and_lag_is_not_the_cause() -> None:
    world = World()
    assert world.control.is_calm
    world.leads = False
    assert not world.control.is_calm
    world.leads, world.stored = True, FALLEN
    await world.in_force.refresh()
    assert not world.control.is_calm
    world.stored = FALLEN._replace(cause=Cause.RECOVERING)
    await world.in_force.refresh()
    assert world.control.is_calm
