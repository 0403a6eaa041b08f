"""Settled means that nothing is left anywhere, however work moves on while it is looked for."""

import pytest
from fanout_service.settlement import Progress, Settlement, Work
from hypothesis import given
from hypothesis import strategies as st

DONE = 5


class Flow:
    """One piece of work on its way; it moves on by so many places before each question."""

    def __init__(self, place: int, moves: list[int]) -> None:
        self.place = place
        self._moves = moves
        self.asked: list[str] = []

    def _left(self, name: str, place: int) -> int:
        self.asked.append(name)
        self.place += self._moves.pop(0)
        return int(self.place == place)

    async def rows(self) -> int:
        """See `settlement.Outbox`."""
        return self._left("outbox", 0)

    async def of(self, *work: Work) -> int:
        """See `settlement.Lag`."""
        name = "+".join(kind.value for kind in work)
        return self._left(name, {"posts+graph": 1, "chunks": 2, "reconcile": 3}[name])

    async def unseen_ms(self) -> int:
        """See `settlement.Announcements`."""
        return self._left("unseen", 4)


async def progress_of(flow: Flow) -> Progress:
    return await Settlement([flow], flow, flow).progress()


async def test_every_place_is_asked_in_the_order_of_the_flow() -> None:
    flow = Flow(DONE, [0] * DONE)
    assert (await progress_of(flow)).is_settled
    assert flow.asked == ["outbox", "posts+graph", "chunks", "reconcile", "unseen"]


@given(st.integers(0, DONE), st.lists(st.integers(0, 3), min_size=DONE, max_size=DONE))
async def test_it_is_settled_only_when_what_was_under_way_is_done(place: int, moves: list[int]) -> None:
    flow = Flow(place, moves)
    progress = await progress_of(flow)
    assert not progress.is_settled or flow.place >= DONE


@pytest.mark.parametrize("field", Progress._fields)
def test_anything_left_is_not_settled(field: str) -> None:
    assert not Progress(0, 0, 0, 0, 0)._replace(**{field: 1}).is_settled
