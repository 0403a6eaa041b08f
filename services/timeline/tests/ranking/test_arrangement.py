"""An order tells how it came about: by score, and then rule by rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from timeline_service.ranking.arrangement import Move, Step
from timeline_service.ranking.rules import ALL_RULES, Rules
from timeline_service.ranking.rules.author_diversity import AuthorDiversity
from timeline_service.ranking.rules.freshness import Freshness
from timeline_service.ranking.rules.guaranteed_places import GuaranteedPlaces
from timeline_service.ranking.rules.head_share import HeadShare
from timeline_service.ranking.rules.hidden import Hidden
from timeline_service.ranking.rules.runs import Runs
from timeline_service.ranking.rules.seen import Seen
from timeline_service.ranking.rules.topic_diversity import TopicDiversity

from .lines import HOUR_MS, Post, candidates, lines, order_of, ordered, scores, unhurried, written
from .reading import read

FEW_PLACES = replace(
    ALL_RULES,
    guaranteed_places=GuaranteedPlaces(within=4, strong_ties=1, affinity=4),
    head_share=HeadShare(share=0.4, window=5),
)
"""All rules, at work on few posts."""


def moves(line: str, rules: Rules) -> dict[str, list[Move]]:
    """The moves of a line of words that were moved."""
    order = order_of(written(line), rules)
    return {word: order.moves(row) for row, word in enumerate(line.split()) if order.moves(row)}


def stages(rules: Rules) -> list[Rules]:
    """Rules, one more at a time."""
    first = [Rules(of_scores=rules.of_scores[: count + 1]) for count in range(len(rules.of_scores))]
    hidden = Rules(of_scores=rules.of_scores, hidden=rules.hidden)
    guaranteed = replace(hidden, guaranteed_places=rules.guaranteed_places)
    return [*first, hidden, guaranteed, replace(guaranteed, runs=rules.runs), rules]


# --- examples ----------------------------------------------------------------------------------------------------------


def test_without_rules_the_order_is_by_score_and_of_equal_scores_the_newer_first() -> None:
    order = order_of([Post(author=1, score=score) for score in (1, 3, 2, 3)], Rules())
    assert order.rows.tolist() == [1, 3, 2, 0]
    assert order.scored_places.tolist() == [3, 0, 2, 1]
    assert (order.steps, order.moves(0)) == ([], [])


def test_nothing_is_arranged_as_nothing() -> None:
    assert order_of([], ALL_RULES).rows.tolist() == []


def test_a_seen_post_says_that_it_was_moved_and_those_that_closed_up_do_not() -> None:
    assert moves("a~ b c", Rules(of_scores=(Seen(factor=0.1),))) == {"a~": [Move("seen", 0, 2)]}


def test_a_hidden_post_says_that_it_goes_last() -> None:
    assert moves("a- b c", Rules(hidden=Hidden())) == {"a-": [Move("hidden", 0, 2)]}


def test_a_favourite_says_that_its_place_was_guaranteed_and_those_that_made_way_do_not() -> None:
    rules = Rules(guaranteed_places=GuaranteedPlaces(within=2))
    assert moves("a b c d*", rules) == {"d*": [Move("guaranteed-places", 3, 1)]}


def test_who_waited_for_somebody_else_in_between_says_so() -> None:
    assert moves("a a1 a2 a3 b c", Rules(runs=Runs())) == {
        "a2": [Move("runs", 2, 3)],
        "a3": [Move("runs", 3, 4)],
    }


def test_a_head_account_that_waited_for_room_says_so() -> None:
    assert moves("A B C d e", Rules(head_share=HeadShare(share=0.5, window=4))) == {"C": [Move("head-share", 2, 4)]}


def test_who_was_moved_by_several_rules_names_them_in_their_order() -> None:
    posts = [
        Post(author=1, score=5.0),
        Post(author=1, score=4.9),
        Post(author=1, score=4.8),
        Post(author=2, score=2.0),
        Post(author=3, score=1.0),
    ]
    rules = Rules(of_scores=(AuthorDiversity(decay=0.9, floor=0.9), Seen()), runs=Runs())
    seen = [*posts[:2], replace(posts[2], was_seen=True), *posts[3:]]
    order = order_of(seen, rules)
    assert order.moves(2) == [Move("seen", 2, 3)]
    assert [move.rule for move in order_of(posts, rules).moves(2)] == ["runs"]


def test_what_is_fresh_says_that_it_was_lifted_and_what_is_old_that_it_was_demoted() -> None:
    ages = {0: 1.0, 12: 1.5, 48: 2.0}
    posts = [Post(author=author, age_ms=age * HOUR_MS, score=score) for author, (age, score) in enumerate(ages.items())]
    order = order_of(posts, Rules(of_scores=(Freshness(),)))
    assert order.rows.tolist() == [0, 2, 1]
    assert order.moves(0) == [Move("freshness", 2, 0)]
    assert order.moves(2) == [Move("freshness", 0, 1)]
    assert order.moves(1) == []


def test_a_first_page_reads_as_the_rules_say() -> None:
    """Somebody follows a talkative friend, a quiet favourite, and two large accounts."""
    friend, favourite, star, club, hidden = 1, 2, 3, 4, 5
    posts = [
        Post(author=friend, score=9.0),
        Post(author=friend, score=8.9),
        Post(author=star, score=8.8, is_head=True),
        Post(author=club, score=8.7, is_head=True, topics=(1,)),
        Post(author=hidden, score=8.6, was_hidden=True),
        Post(author=friend, score=8.5),
        Post(author=star, score=8.4, is_head=True, topics=(1,)),
        Post(author=favourite, score=0.1, is_favourite=True),
        Post(author=friend, score=8.3, was_seen=True),
    ]
    rules = Rules(
        of_scores=(Seen(), AuthorDiversity(), TopicDiversity()),
        hidden=Hidden(),
        guaranteed_places=GuaranteedPlaces(within=5),
        runs=Runs(),
        head_share=HeadShare(share=0.4, window=5),
    )
    order = order_of(posts, rules)
    assert order.rows.tolist() == [0, 2, 3, 1, 7, 5, 6, 8, 4]
    assert {row: order.moves(row) for row in range(len(posts)) if order.moves(row)} == {
        1: [Move("author-diversity", 1, 4)],
        4: [Move("hidden", 3, 8)],
        5: [Move("author-diversity", 5, 6)],
        6: [Move("head-share", 5, 6)],
        7: [Move("guaranteed-places", 7, 4)],
    }


# --- what holds of every line ------------------------------------------------------------------------------------------


@unhurried
@given(lines())
def test_each_step_leads_from_the_order_before_its_rule_to_the_order_after_it(posts: list[Post]) -> None:
    order = order_of(posts, FEW_PLACES)
    reached = order.scored_places
    for step in order.steps:
        assert step.before.tolist() == reached.tolist()
        reached = step.after
    assert [posts[row] for row in np.argsort(reached)] == [posts[row] for row in order.rows]


@unhurried
@given(lines())
def test_each_step_leads_to_the_order_that_there_is_without_later_rules(posts: list[Post]) -> None:
    steps = {step.rule: step for step in order_of(posts, FEW_PLACES).steps}
    for name, rules in zip(FEW_PLACES.names, stages(FEW_PLACES), strict=True):
        assert rules.names[-1] == name
        if name in steps:
            assert np.argsort(steps[name].after).tolist() == order_of(posts, rules).rows.tolist()


@unhurried
@given(lines())
def test_a_move_is_told_of_nobody_who_did_not_move(posts: list[Post]) -> None:
    order = order_of(posts, FEW_PLACES)
    for row in range(len(posts)):
        assert all(move.from_place != move.to_place for move in order.moves(row))


@unhurried
@given(lines())
def test_moves_by_score_rules_go_the_way_that_the_factor_says(posts: list[Post]) -> None:
    every = candidates(posts)
    by_name = {rule.name: rule for rule in FEW_PLACES.of_scores}
    for step in order_of(posts, FEW_PLACES).steps:
        if step.rule in by_name:
            factors = by_name[step.rule].factors(every, np.argsort(step.before))
            assert all(
                step.meant[row] == ((factors[row] - 1) * (step.before[row] - step.after[row]) > 0)
                for row in range(len(posts))
            )


@unhurried
@given(lines())
def test_moves_by_place_rules_are_of_those_that_they_are_about(posts: list[Post]) -> None:
    by_name: dict[str, Step] = {step.rule: step for step in order_of(posts, FEW_PLACES).steps}
    line = ordered(posts, Rules(of_scores=FEW_PLACES.of_scores))
    without_share = read(line, replace(FEW_PLACES, head_share=None))
    about = {
        "hidden": [post for post in posts if post.was_hidden],
        "runs": without_share.passed_for_runs,
        "head-share": read(line, FEW_PLACES).passed_for_share,
    }
    for name, step in by_name.items():
        if name in about:
            fell = [
                row for row in range(len(posts)) if step.after[row] > step.before[row] and posts[row] in about[name]
            ]
            assert np.flatnonzero(step.meant).tolist() == fell


@unhurried
@given(lines())
def test_all_rules_and_each_of_scores_alone_keep_the_set_and_are_deterministic(posts: list[Post]) -> None:
    for rules in (FEW_PLACES, *(Rules(of_scores=(rule,)) for rule in ALL_RULES.of_scores)):
        order = order_of(posts, rules)
        assert sorted(order.rows.tolist()) == list(range(len(posts)))
        assert order.rows.tolist() == order_of(posts, rules).rows.tolist()


@unhurried
@given(lines())
def test_candidates_and_scores_are_left_as_they_are(posts: list[Post]) -> None:
    order = order_of(posts, FEW_PLACES)
    assert order.scores.tolist() == scores(posts).tolist()


def test_many_posts_keep_all_rules_at_once_where_there_are_many_authors() -> None:
    chance = np.random.default_rng(5)
    posts = [
        Post(
            author=author,
            score=float(chance.normal()),
            is_head=author < 20,
            is_favourite=author % 17 == 0,
            affinity=float(author % 9),
            was_seen=bool(chance.random() < 0.2),
            was_hidden=bool(chance.random() < 0.02),
            age_ms=place * HOUR_MS // 10,
        )
        for place, author in enumerate(int(author) for author in chance.integers(0, 60, 400))
    ]
    order = ordered(posts, ALL_RULES)
    shown = [post for post in order if not post.was_hidden]
    assert [post.was_hidden for post in order] == sorted(post.was_hidden for post in order)
    assert all(len({post.author for post in shown[place : place + 3]}) > 1 for place in range(len(shown) - 2))
    assert max(sum(post.is_head for post in shown[place : place + 20]) for place in range(len(shown) - 19)) <= 10
    unseen = {
        post.author for post in posts if post.is_favourite and not (post.was_seen or post.was_hidden or post.is_own)
    }
    assert unseen <= {post.author for post in order[:20]}


@pytest.mark.parametrize("count", [1, 400])
def test_of_one_author_alone_the_order_is_by_score(count: int) -> None:
    posts = [Post(author=1, score=float(score), is_head=True) for score in range(count)]
    assert order_of(posts, ALL_RULES).rows.tolist() == list(range(count))[::-1]
