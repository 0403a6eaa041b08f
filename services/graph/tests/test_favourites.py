"""Who may be made a favourite."""

import pytest
from feedkit.errors import FailedPrecondition, NotFound
from graph_service.favourites import Situation, is_new

ACTOR, OTHER = 1, 2
BOTH = frozenset({ACTOR, OTHER})
LIMIT = 3


def test_one_who_is_followed_becomes_a_favourite_once():
    assert is_new(Situation(BOTH, following=True, favourite=False, number=LIMIT - 1), ACTOR, OTHER, LIMIT)
    assert not is_new(Situation(BOTH, following=True, favourite=True, number=1), ACTOR, OTHER, LIMIT)


def test_one_who_is_not_followed_is_named():
    with pytest.raises(FailedPrecondition) as caught:
        is_new(Situation(BOTH, following=False, favourite=False, number=0), ACTOR, OTHER, LIMIT)
    assert (caught.value.reason, caught.value.metadata) == ("NOT_FOLLOWING", {"user_id": str(OTHER)})


@pytest.mark.parametrize("number", [LIMIT, LIMIT + 5])
def test_the_limit_refuses_a_new_one_and_ends_none_that_stands_when_it_was_lowered(number: int):
    with pytest.raises(FailedPrecondition) as caught:
        is_new(Situation(BOTH, following=True, favourite=False, number=number), ACTOR, OTHER, LIMIT)
    assert (caught.value.reason, caught.value.metadata) == ("FAVOURITES_LIMIT_REACHED", {"limit": str(LIMIT)})
    assert not is_new(Situation(BOTH, following=True, favourite=True, number=number), ACTOR, OTHER, LIMIT)


@pytest.mark.parametrize(("missing", "field"), [(ACTOR, "actor_id"), (OTHER, "favourite_id")])
def test_one_who_does_not_exist_is_told_of_before_anything_else(missing: int, field: str):
    with pytest.raises(NotFound) as caught:
        is_new(Situation(BOTH - {missing}, following=False, favourite=False, number=LIMIT), ACTOR, OTHER, LIMIT)
    assert caught.value.metadata == {"user_id": str(missing), "field": field}
