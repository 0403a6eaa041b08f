"""What becomes of wishes to follow."""

from collections.abc import Set

import pytest
from feedkit.errors import PermissionDenied
from graph_service.follows import FollowResult, Outcome, Refusal, Situation, judge
from hypothesis import given
from hypothesis import strategies as st

ACTOR = 1
IDS = st.integers(1, 12)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    existing = draw(st.frozensets(IDS)) | {ACTOR}
    followed = draw(st.frozensets(st.sampled_from(sorted(existing)))) - {ACTOR}
    suspended, apart = draw(st.frozensets(IDS)), draw(st.frozensets(IDS)) - followed
    return Situation(len(followed) + draw(st.integers(0, 3)), existing, followed, suspended, apart)


def asked() -> st.SearchStrategy[list[int]]:
    return st.lists(IDS, unique=True, min_size=1)


def situation(
    *, count: int = 0, existing: Set[int] = frozenset(range(1, 10)), followed: Set[int] = frozenset()
) -> Situation:
    return Situation(count, existing, followed)


def test_a_user_who_exists_is_followed():
    assert judge(ACTOR, [2], situation(), 5) == [FollowResult(2, Outcome.FOLLOWED)]


def test_nobody_follows_themselves():
    assert judge(ACTOR, [ACTOR], situation(), 5) == [FollowResult(ACTOR, Outcome.REFUSED, Refusal.CANNOT_FOLLOW_SELF)]


def test_a_user_who_does_not_exist_is_not_followed():
    assert judge(ACTOR, [77], situation(), 5) == [FollowResult(77, Outcome.REFUSED, Refusal.USER_NOT_FOUND)]


def test_a_follow_that_stands_is_no_error_at_the_limit():
    assert judge(ACTOR, [2], situation(count=5, followed={2}), 5) == [FollowResult(2, Outcome.ALREADY)]


def test_the_limit_refuses_one_more():
    assert judge(ACTOR, [2], situation(count=5), 5) == [
        FollowResult(2, Outcome.REFUSED, Refusal.FOLLOWING_LIMIT_REACHED)
    ]


def test_a_limit_that_was_lowered_refuses_without_ending_anything():
    assert judge(ACTOR, [2], situation(count=9), 5) == [
        FollowResult(2, Outcome.REFUSED, Refusal.FOLLOWING_LIMIT_REACHED)
    ]


def test_the_first_asked_for_get_in_and_the_refused_take_no_room():
    results = judge(ACTOR, [77, ACTOR, 3, 2, 4, 5], situation(count=3, followed={3}), 5)
    assert [result.followee_id for result in results if result.outcome is Outcome.FOLLOWED] == [2, 4]


def test_a_suspended_user_is_not_followed_anew():
    before = situation(followed={3})._replace(suspended={2, 3})
    assert judge(ACTOR, [2, 3], before, 5) == [
        FollowResult(2, Outcome.REFUSED, Refusal.USER_SUSPENDED),
        FollowResult(3, Outcome.ALREADY),
    ]


def test_nobody_is_followed_across_a_block():
    before = situation()._replace(apart={2})
    assert judge(ACTOR, [2], before, 5) == [FollowResult(2, Outcome.REFUSED, Refusal.BLOCKED)]


def test_what_everybody_may_know_is_told_before_a_block():
    before = situation()._replace(suspended={2}, apart={2, 77})
    assert [result.refusal for result in judge(ACTOR, [2, 77], before, 5)] == [
        Refusal.USER_SUSPENDED,
        Refusal.USER_NOT_FOUND,
    ]


def test_a_deleted_user_who_was_followed_is_not_found():
    before = situation(existing={ACTOR}, followed={2})
    assert judge(ACTOR, [2], before, 5) == [FollowResult(2, Outcome.REFUSED, Refusal.USER_NOT_FOUND)]


@given(asked(), situations())
def test_a_suspended_actor_follows_nobody(ids: list[int], before: Situation):
    with pytest.raises(PermissionDenied) as caught:
        judge(ACTOR, ids, before._replace(actor_suspended=True), 5)
    assert caught.value.reason == "ACCOUNT_SUSPENDED"


@given(asked(), situations(), st.integers(1, 15))
def test_every_id_has_one_result_in_the_order_asked(ids: list[int], before: Situation, limit: int):
    assert [result.followee_id for result in judge(ACTOR, ids, before, limit)] == ids


@given(asked(), situations(), st.integers(1, 15))
def test_the_limit_is_never_exceeded_by_a_new_follow(ids: list[int], before: Situation, limit: int):
    new = [result for result in judge(ACTOR, ids, before, limit) if result.outcome is Outcome.FOLLOWED]
    assert len(new) <= max(limit - before.following_count, 0)


@given(asked(), situations(), st.integers(1, 15))
def test_nobody_is_refused_by_the_limit_while_there_is_room(ids: list[int], before: Situation, limit: int):
    results = judge(ACTOR, ids, before, limit)
    new = sum(result.outcome is Outcome.FOLLOWED for result in results)
    refused = any(result.refusal is Refusal.FOLLOWING_LIMIT_REACHED for result in results)
    assert not refused or before.following_count + new >= limit


@given(asked(), situations(), st.integers(1, 15))
def test_a_refusal_has_a_reason_and_nothing_else_has(ids: list[int], before: Situation, limit: int):
    for result in judge(ACTOR, ids, before, limit):
        assert (result.refusal is not None) == (result.outcome is Outcome.REFUSED)
