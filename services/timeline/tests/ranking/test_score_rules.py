"""Score rules say how much each score counts."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.ranking.rules import Rules
from timeline_service.ranking.rules.author_diversity import AuthorDiversity
from timeline_service.ranking.rules.freshness import Freshness
from timeline_service.ranking.rules.score_rule import ScoreRule, discounted
from timeline_service.ranking.rules.seen import Seen
from timeline_service.ranking.rules.topic_diversity import TopicDiversity

from .lines import HOUR_MS, Post, candidates, lines, order_of, scores, unhurried

ALL: list[ScoreRule] = [Seen(), Freshness(), AuthorDiversity(), TopicDiversity()]
FACTORS = st.floats(0.01, 1)


def factors(rule: ScoreRule, posts: list[Post]) -> list[float]:
    """The factors of posts, ordered by their scores."""
    return rule.factors(candidates(posts), np.argsort(-scores(posts), kind="stable")).tolist()


def places(posts: list[Post], *rules: ScoreRule) -> list[int]:
    """Which posts come first, by index."""
    return order_of(posts, Rules(of_scores=rules)).rows.tolist()


# --- what each of them says --------------------------------------------------------------------------------------------


def test_a_seen_post_counts_less() -> None:
    assert factors(Seen(factor=0.3), [Post(author=1, was_seen=True), Post(author=2)]) == [0.3, 1.0]


def test_a_seen_post_comes_behind_an_unseen_one_that_is_nearly_as_good() -> None:
    posts = [Post(author=1, score=5, was_seen=True), Post(author=2, score=4), Post(author=3, score=1)]
    assert places(posts, Seen(factor=0.3)) == [1, 0, 2]


def test_scores_fade_by_half_in_each_half_life_down_to_the_floor() -> None:
    posts = [Post(author=1, age_ms=age * HOUR_MS) for age in (0, 6, 12, 24, 72)]
    relative = np.array(factors(Freshness(half_life_seconds=6 * 3_600, floor=0.2), posts))
    assert (relative / relative[0]).tolist() == pytest.approx([1, 0.5, 0.25, 0.2, 0.2])


def test_ages_count_from_the_newest_so_that_a_late_reader_sees_the_same_order() -> None:
    fresh = [Post(author=1, age_ms=age * HOUR_MS) for age in (0, 5, 9)]
    week_old = [Post(author=1, age_ms=(age + 7 * 24) * HOUR_MS) for age in (0, 5, 9)]
    assert factors(Freshness(), fresh) == factors(Freshness(), week_old)


def test_the_fresher_half_is_lifted_and_the_older_half_demoted() -> None:
    posts = [Post(author=1, age_ms=age * HOUR_MS) for age in (0, 1, 2, 3, 4)]
    assert [np.sign(round(factor - 1, 9)) for factor in factors(Freshness(), posts)] == [1, 1, 0, -1, -1]


def test_the_next_post_of_an_author_counts_less_down_to_the_floor() -> None:
    posts = [Post(author=author, score=score) for author, score in [(1, 1), (2, 5), (1, 4), (1, 3), (1, 2)]]
    assert factors(AuthorDiversity(decay=0.5, floor=0.2), posts) == [0.2, 1, 1, 0.5, 0.25]


def test_the_next_post_of_a_topic_counts_less_as_its_most_frequent_one() -> None:
    topics = [(7,), (), (7, 8), (8, 9), (7, 9, 7), (6,)]
    posts = [Post(author=1, topics=some, score=-place) for place, some in enumerate(topics)]
    assert factors(TopicDiversity(decay=0.5, floor=0.2), posts) == [1, 1, 0.5, 0.5, 0.25, 1]


def test_of_equal_scores_the_newer_counts_as_the_better() -> None:
    assert factors(AuthorDiversity(decay=0.5), [Post(author=1), Post(author=1)]) == [1, 0.5]


@unhurried
@given(lines(), st.sampled_from(["author", "topics"]))
def test_repetitions_are_counted_as_somebody_would_who_reads_from_the_top(posts: list[Post], what: str) -> None:
    decay, floor = 0.7, 0.3
    said: list[int] = []
    expected = [0.0] * len(posts)
    for row in sorted(range(len(posts)), key=lambda row: -posts[row].score):
        about = {posts[row].author} if what == "author" else set(posts[row].topics)
        expected[row] = max(floor, decay ** max(map(said.count, about), default=0))
        said.extend(about)
    kind: Callable[..., ScoreRule] = AuthorDiversity if what == "author" else TopicDiversity
    assert factors(kind(decay=decay, floor=floor), posts) == pytest.approx(expected)


# --- how a factor counts -----------------------------------------------------------------------------------------------


@given(st.floats(-10, 10), FACTORS)
def test_a_demotion_never_raises_a_score_not_even_a_negative_one(score: float, factor: float) -> None:
    (after,) = discounted(np.array([score]), np.array([factor]))
    assert after <= score
    assert np.sign(after) == np.sign(score)


def test_a_seen_post_that_annoys_falls_further() -> None:
    posts = [Post(author=1, score=-1, was_seen=True), Post(author=2, score=-2)]
    assert places(posts, Seen(factor=0.3)) == [1, 0]


@unhurried
@given(lines(), st.sampled_from([0.125, 2.0, 16.0]))
def test_only_the_ratio_of_factors_decides_on_the_order(posts: list[Post], common: float) -> None:
    halved = np.where(candidates(posts).was_seen, 0.25, 1.0)
    once, twice = discounted(scores(posts), halved), discounted(scores(posts), halved * common)
    assert np.argsort(-once, kind="stable").tolist() == np.argsort(-twice, kind="stable").tolist()


@unhurried
@given(lines(), st.sampled_from(ALL))
def test_factors_are_above_0_and_one_for_each_post(posts: list[Post], rule: ScoreRule) -> None:
    given_factors = factors(rule, posts)
    assert len(given_factors) == len(posts)
    assert all(factor > 0 for factor in given_factors)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.1, float("nan")])
@pytest.mark.parametrize(
    ("rule", "parameter"),
    [
        (Seen, "factor"),
        (Freshness, "floor"),
        (AuthorDiversity, "decay"),
        (AuthorDiversity, "floor"),
        (TopicDiversity, "decay"),
        (TopicDiversity, "floor"),
    ],
)
def test_what_would_lose_posts_is_refused(rule: Callable[..., ScoreRule], parameter: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{parameter} is .*, not above 0 and at most 1"):
        rule(**{parameter: value})


def test_a_half_life_is_above_0() -> None:
    with pytest.raises(ValueError, match="not above 0"):
        Freshness(half_life_seconds=0)
