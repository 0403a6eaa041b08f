"""Place rules decide on places. Lines are read as `lines` tells: the best first, capitals are head accounts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.ranking.rules import ALL_RULES, Rules
from timeline_service.ranking.rules.guaranteed_places import GuaranteedPlaces
from timeline_service.ranking.rules.head_share import HeadShare
from timeline_service.ranking.rules.hidden import Hidden
from timeline_service.ranking.rules.runs import Runs

from .lines import Post, arranged, lines, order_of, ordered, unhurried
from .reading import guaranteed_of, kept, read

RULES = st.builds(
    Rules,
    hidden=st.none() | st.just(Hidden()),
    guaranteed_places=st.none()
    | st.builds(GuaranteedPlaces, within=st.integers(1, 5), strong_ties=st.integers(0, 2), affinity=st.just(4.0)),
    runs=st.none() | st.builds(Runs, most=st.integers(2, 3)),
    head_share=st.none() | st.builds(HeadShare, share=st.sampled_from([0.2, 0.4, 0.6]), window=st.integers(5, 7)),
)


def best_first(posts: list[Post]) -> list[Post]:
    """Posts by score."""
    return sorted(posts, key=lambda post: -post.score)


# --- examples ----------------------------------------------------------------------------------------------------------

HIDDEN = Rules(hidden=Hidden())
RUNS = Rules(runs=Runs())
TWO_OF_FOUR = Rules(head_share=HeadShare(share=0.5, window=4))
WITHIN_THREE = Rules(guaranteed_places=GuaranteedPlaces(within=3))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a- b c-", "b a- c-"),
        ("a- b-", "a- b-"),
    ],
)
def test_hidden_posts_go_last(line: str, expected: str) -> None:
    assert arranged(line, HIDDEN) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a a b a", "a a b a"),  # two in a row are no run
        ("a a a b", "a a b a"),  # the third waits for somebody else
        ("a a a a b c", "a a b a a c"),  # again and again
        ("a a a a b", "a a b a a"),
        ("a b b b a c", "a b b a b c"),
        ("b a a a a a", "b a a a a a"),  # nobody else is left, and b is not held back for that
    ],
)
def test_nobody_has_more_than_two_in_a_row_as_long_as_there_are_others(line: str, expected: str) -> None:
    assert arranged(line, RUNS) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A B c d", "A B c d"),
        ("A B C d e", "A B d e C"),  # C waits until A has left the window of four
        ("A B C D e f g h", "A B e f C D g h"),
        ("A B C d", "A B d C"),  # nobody else is left
        ("A B C D", "A B C D"),
    ],
)
def test_head_accounts_have_half_of_each_window_as_long_as_there_are_others(line: str, expected: str) -> None:
    assert arranged(line, TWO_OF_FOUR) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b c d* e", "a b d* c e"),  # no higher than it has to be
        ("a* b c d", "a* b c d"),  # good enough by itself
        ("a b c d* e*", "a d* e* b c"),
        ("a b c d* e* f* g*", "d* e* f* a b c g*"),  # more favourites than places
        ("a b c d~* d*", "a b d* c d~*"),  # the best that is unseen
        ("a b c d*- e", "a b c d*- e"),  # nothing is guaranteed to what was hidden
    ],
)
def test_favourites_have_a_place_within_the_first_ones(line: str, expected: str) -> None:
    assert arranged(line, WITHIN_THREE) == expected


def test_the_strongest_ties_have_a_place_too() -> None:
    affinities = [0, 0, 0, 7, 8, 9, 5]
    posts = [Post(author=author, affinity=affinity, score=-author) for author, affinity in enumerate(affinities)]
    rules = Rules(guaranteed_places=GuaranteedPlaces(within=3, strong_ties=2, affinity=6))
    assert order_of(posts, rules).rows.tolist() == [0, 4, 5, 1, 2, 3, 6]


def test_the_viewers_own_posts_need_no_guarantee() -> None:
    posts = [Post(author=author, score=-author, affinity=9.0 * author, is_own=author == 3) for author in range(4)]
    rules = Rules(guaranteed_places=GuaranteedPlaces(within=1, strong_ties=1, affinity=20))
    assert order_of(posts, rules).rows.tolist() == [0, 1, 2, 3]


def test_rules_that_look_further_than_the_line_is_long_cost_no_more_than_the_line() -> None:
    endless = 10**12
    assert arranged("a a a b", Rules(runs=Runs(most=endless))) == "a a a b"
    assert arranged("A B c", Rules(head_share=HeadShare(share=1 / endless, window=endless))) == "A c B"


WITHIN_FOUR = GuaranteedPlaces(within=4)


@pytest.mark.parametrize(
    ("line", "expected", "why"),
    [
        ("A a B b c C*", "A a b C* B c", "B does not take the place that has been promised to C"),
        ("A* B* C* d", "A* B* d C*", "promises come before the share"),
        ("b a~* a~* c d a*", "b a~* c a* a~* d", "a's second post would lead to three in a row"),
        ("b a~* a* c d d d e", "b a~* a* c d d e d", "the second may well be the guaranteed one"),
        ("a~* a~* a~* a*", "a~* a~* a~* a*", "nobody else is there"),
        ("A A A b- c-", "A A A b- c-", "hidden posts do not help anybody"),
        ("A A A B c", "A A c A B", "runs and share together"),
        ("a a a B C D", "a a B a C D", "where others are left, all is kept; a run is worse than too large a share"),
    ],
)
def test_together_they_are_kept_as_far_as_they_can_be(line: str, expected: str, why: str) -> None:
    rules = Rules(
        hidden=Hidden(), guaranteed_places=WITHIN_FOUR, runs=Runs(), head_share=HeadShare(share=0.5, window=4)
    )
    assert arranged(line, rules) == expected, why


# --- what holds of every line ------------------------------------------------------------------------------------------


@unhurried
@given(lines(), RULES)
def test_each_place_goes_to_the_first_who_keeps_the_most_important_rules_there(posts: list[Post], rules: Rules) -> None:
    expected = read(best_first(posts), rules).posts
    assert ordered(posts, rules) == expected


@unhurried
@given(lines(), RULES)
def test_nothing_is_lost_or_repeated_and_twice_the_same_is_the_same(posts: list[Post], rules: Rules) -> None:
    order = order_of(posts, rules)
    assert sorted(order.rows.tolist()) == list(range(len(posts)))
    assert order.rows.tolist() == order_of(posts, rules).rows.tolist()


@unhurried
@given(lines(), RULES)
def test_what_keeps_all_rules_by_score_stays_as_it_is(posts: list[Post], rules: Rules) -> None:
    once = ordered(posts, rules)
    line = best_first(posts)
    guaranteed = guaranteed_of(line, rules)
    if all(all(kept(line[:place], line[place], line[place:], guaranteed, rules).rank) for place in range(len(line))):
        assert once == line


@unhurried
@given(lines(), RULES.filter(lambda rules: rules.hidden is not None))
def test_no_hidden_post_is_above_one_that_is_not(posts: list[Post], rules: Rules) -> None:
    hidden = [post.was_hidden for post in ordered(posts, rules)]
    assert hidden == sorted(hidden)


@unhurried
@given(lines(), RULES.filter(lambda rules: rules.guaranteed_places is not None))
def test_every_guaranteed_post_is_within_the_first_places(posts: list[Post], rules: Rules) -> None:
    assert rules.guaranteed_places
    first = ordered(posts, rules)[: rules.guaranteed_places.within]
    assert all(post in first for post in guaranteed_of(best_first(posts), rules))


@unhurried
@given(lines(), st.integers(2, 3))
def test_whoever_has_too_many_in_a_row_has_all_that_are_left(posts: list[Post], most: int) -> None:
    order = [post.author for post in ordered(posts, Rules(runs=Runs(most=most)))]
    for place in range(most, len(order)):
        if len(set(order[place - most : place + 1])) == 1:
            assert len(set(order[place:])) == 1


@unhurried
@given(lines(), st.sampled_from([0.2, 0.5]), st.integers(1, 7))
def test_a_window_with_too_many_of_head_accounts_is_followed_by_nobody_else(
    posts: list[Post], share: float, window: int
) -> None:
    rule = HeadShare(share=share, window=window)
    heads = [post.is_head for post in ordered(posts, Rules(head_share=rule))]
    for end in range(1, len(heads) + 1):
        if sum(heads[max(0, end - window) : end]) > rule.most:
            assert all(heads[end - 1 :])


@unhurried
@given(lines(), st.integers(1, 5), st.sampled_from([0.4, 0.6]))
def test_promises_to_some_head_accounts_are_kept_within_the_share(posts: list[Post], within: int, share: float) -> None:
    rule = HeadShare(share=share, window=5)
    rules = Rules(guaranteed_places=GuaranteedPlaces(within=within), head_share=rule)
    promised = sum(post.is_head for post in guaranteed_of(best_first(posts), rules))
    if promised <= rule.most and sum(not post.is_head for post in posts) >= within:
        assert sum(post.is_head for post in ordered(posts, rules)[:within]) <= rule.most


@unhurried
@given(lines(), RULES)
def test_posts_of_one_author_keep_their_order_but_for_guaranteed_and_hidden_ones(
    posts: list[Post], rules: Rules
) -> None:
    line = best_first(posts)
    special = guaranteed_of(line, rules)
    order = ordered(posts, rules)
    for author in {post.author for post in posts}:
        ordinary = [
            post
            for post in order
            if post.author == author and post not in special and not (rules.hidden and post.was_hidden)
        ]
        assert all(above.score >= below.score for above, below in pairwise(ordinary))


# --- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [{"most": 1}, {"most": 0}])
def test_runs_are_of_two_or_more(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="not 2 or more"):
        Runs(**wrong)


@pytest.mark.parametrize(("share", "window"), [(0.0, 20), (1.1, 20), (0.5, 0)])
def test_a_share_is_a_share_of_some_places(share: float, window: int) -> None:
    with pytest.raises(ValueError, match="is "):
        HeadShare(share=share, window=window)


@pytest.mark.parametrize(("within", "strong_ties"), [(0, 5), (20, -1)])
def test_guaranteed_places_are_some(within: int, strong_ties: int) -> None:
    with pytest.raises(ValueError, match="strong ties"):
        GuaranteedPlaces(within=within, strong_ties=strong_ties)


def test_places_are_guaranteed_within_the_window_of_head_accounts() -> None:
    with pytest.raises(ValueError, match="further down"):
        Rules(guaranteed_places=GuaranteedPlaces(within=21), head_share=HeadShare(window=20))


def test_rules_tell_their_names_in_the_order_in_which_they_are_applied() -> None:
    scoring = ("seen", "freshness", "author-diversity", "topic-diversity")
    assert ALL_RULES.names == (*scoring, "hidden", "guaranteed-places", "runs", "head-share")
    assert RUNS.names == ("runs",)
    assert Rules().names == ()


@pytest.mark.parametrize(("share", "window", "most"), [(0.5, 20, 10), (0.29, 100, 29), (0.3, 5, 1), (0.01, 20, 1)])
def test_a_share_is_rounded_down_but_never_to_nothing(share: float, window: int, most: int) -> None:
    assert HeadShare(share=share, window=window).most == most
