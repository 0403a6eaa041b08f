"""How much of what people did is written in one round trip."""

from fanout_service.feature_store import Step, round_trips
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(1, 9), max_size=20), st.integers(1, 20))
def test_all_steps_come_in_order_and_no_more_work_together_than_may_be(works: list[int], most: int) -> None:
    steps = [Step((str(place),), work) for place, work in enumerate(works)]
    trips = list(round_trips(steps, most))
    assert [command for trip in trips for command in trip] == [step.command for step in steps]
    work_of = {step.command: step.work for step in steps}
    loads = [sum(work_of[command] for command in trip) for trip in trips]
    assert all(load <= most or len(trip) == 1 for load, trip in zip(loads, trips, strict=True))
    assert all(load + work_of[after[0]] > most for load, after in zip(loads, trips[1:], strict=False)), (
        "as few as can be"
    )
