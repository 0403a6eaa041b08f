"""Settled means that nothing is left anywhere, however work moves on while it is looked for."""

import pytest
from fanout_service.settlement import Progress, Settlement, Work
from hypothesis import given, settings
from hypothesis import strategies as st

PLACES = ("outbox", "posts+graph", "chunks", "reconcile")
"""Where work is, in the order of its flow."""
LAPS = 3
"""How often one piece of work comes round: an erasure goes on by what it has left."""
UNSEEN = LAPS * len(PLACES)
DONE = UNSEEN + 1
QUESTIONS = 6


class Flow:
    """One piece of work on its way; it moves on by so many places before each question."""

    def __init__(self, step: int, moves: list[int]) -> None:
        self.step = step
        self._moves = moves
        self.asked: list[str] = []

    def _move(self, question: str) -> None:
        self.asked.append(question)
        self.step += self._moves.pop(0)

    def _left(self, place: str) -> int:
        self._move(place)
        return int(self.step < UNSEEN and PLACES[self.step % len(PLACES)] == place)

    async def rows(self) -> int:
        """See `settlement.Outbox`."""
        return self._left("outbox")

    async def of(self, *work: Work) -> int:
        """See `settlement.Lag`."""
        return self._left("+".join(kind.value for kind in work))

    async def handled(self, work: Work) -> int:
        """See `settlement.Lag`."""
        self._move(f"{work.value} handled")
        return min(self.step // len(PLACES), LAPS)

    async def written(self, work: Work) -> int:
        """See `settlement.Lag`."""
        self._move(f"{work.value} written")
        return min((self.step + 1) // len(PLACES), LAPS)

    async def unseen_ms(self) -> int:
        """See `settlement.Announcements`."""
        self._move("unseen")
        return int(self.step == UNSEEN)


async def progress_of(flow: Flow) -> Progress:
    return await Settlement([flow], flow, flow).progress()


async def test_every_place_is_asked_in_the_order_of_the_flow() -> None:
    flow = Flow(DONE, [0] * QUESTIONS)
    assert (await progress_of(flow)).is_settled
    assert flow.asked == ["reconcile handled", "outbox", "posts+graph", "chunks", "reconcile written", "unseen"]


async def test_a_wish_that_is_left_again_behind_the_question_is_open() -> None:
    wish = PLACES.index("reconcile")
    flow = Flow(wish, [0, 0, 0, 0, 1, 0])
    assert (await progress_of(flow)).open_reconciles == 1, "what it has erased is in an outbox now"


@settings(max_examples=500)
@given(st.integers(0, DONE), st.lists(st.integers(0, 5), min_size=QUESTIONS, max_size=QUESTIONS))
async def test_it_is_settled_only_when_what_was_under_way_is_done(step: int, moves: list[int]) -> None:
    flow = Flow(step, moves)
    progress = await progress_of(flow)
    assert not progress.is_settled or flow.step >= DONE


@pytest.mark.parametrize("field", Progress._fields)
def test_anything_left_is_not_settled(field: str) -> None:
    assert not Progress(0, 0, 0, 0, 0)._replace(**{field: 1}).is_settled
