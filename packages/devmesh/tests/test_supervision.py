import pytest
from devmesh.supervision import RestartPolicy


def dies(policy: RestartPolicy, *, lived: float, was_ready: bool = True, exit_code: int = 1) -> bool:
    return policy.restart("post", lived=lived, was_ready=was_ready, exit_code=exit_code)


def test_the_third_quick_failure_in_a_row_is_the_last() -> None:
    policy = RestartPolicy()
    assert [dies(policy, lived=1) for _ in range(3)] == [True, True, False]


def test_a_long_life_begins_the_count_anew() -> None:
    policy = RestartPolicy()
    assert [dies(policy, lived=lived) for lived in (1, 1, 10, 1, 1, 1)] == [True, True, True, True, True, False]


def test_each_process_is_counted_alone() -> None:
    policy = RestartPolicy()
    dies(policy, lived=1)
    dies(policy, lived=1)
    assert policy.restart("graph", lived=1, was_ready=True, exit_code=1)


@pytest.mark.parametrize("exit_code", [-9, -15, -2])
def test_a_ready_process_that_is_killed_from_outside_comes_back_as_often_as_it_takes(exit_code: int) -> None:
    policy = RestartPolicy()
    assert all(dies(policy, lived=1, exit_code=exit_code) for _ in range(20))


def test_a_process_that_is_killed_before_it_is_ready_does_not() -> None:
    policy = RestartPolicy()
    assert [dies(policy, lived=1, was_ready=False, exit_code=-9) for _ in range(3)] == [True, True, False]


def test_a_crash_by_a_signal_of_its_own_is_a_failure() -> None:
    policy = RestartPolicy()
    assert [dies(policy, lived=1, exit_code=-11) for _ in range(3)] == [True, True, False]
