"""What is said to have been known before an impression is what was known then, and what followed is what followed."""

from typing import Any

import numpy as np
import pytest
from feedrank.dataset import (
    ENGAGEMENT,
    ENGAGEMENTS,
    HIDE,
    IMPRESSION,
    LESS_LIKE_THIS,
    LIKE,
    POST,
    REPLY,
    REPOST,
    UNLIKE,
    Log,
    in_time_order,
)
from feedrank.features import FEATURES
from feedrank.replay import LABEL_WINDOW_MS, Examples, replay
from feedrank.signals import PREDICTED
from hypothesis import given
from hypothesis import strategies as st

HOUR = 3_600_000
ANN, BOB, CAT = 1, 2, 3
POST_OF_ANN, POST_OF_BOB = 101, 102
LONG_AFTER = 1_000 * HOUR


def log_of(
    impressions: list[tuple[Any, ...]],
    engagements: list[tuple[Any, ...]],
    favourites: list[list[int]] | None = None,
    ends: int = LONG_AFTER,
) -> Log:
    """Of a post by Ann, written at 0, and one by Bob an hour later. Impressions: viewer, post, at, dwell in ms."""
    posts = [(POST_OF_ANN, ANN, 0, True, False, [0] * 4), (POST_OF_BOB, BOB, HOUR, False, True, [0] * 4)]
    rows = [(viewer, post, at, 0, dwell, False) for viewer, post, at, dwell in impressions]
    done = [*engagements, (99, POST_OF_BOB, ends, LIKE)]
    return Log(
        posts=np.array(posts, POST),
        impressions=in_time_order(np.array(rows, IMPRESSION)),
        engagements=in_time_order(np.array(done, ENGAGEMENT)),
        favourites=np.array(favourites or [], np.int64).reshape(-1, 2),
        pulled=np.array([BOB]),
    )


def feature(examples: Examples, name: str, row: int = 0) -> float:
    return float(examples.features[row, FEATURES.index(name)])


def label(examples: Examples, name: str, row: int = 0) -> bool:
    return bool(examples.labels[row, PREDICTED.index(name)])


def replayed(log: Log) -> Examples:
    return replay(log, told_within_ms=0)


def test_features_are_of_the_time_before_the_impression() -> None:
    before, after = 2 * HOUR, 3 * HOUR
    engagements = [
        (BOB, POST_OF_ANN, before - 1, LIKE),
        (BOB, POST_OF_ANN, before, LIKE),
        (BOB, POST_OF_ANN, after, LIKE),
    ]
    examples = replayed(log_of([(CAT, POST_OF_ANN, before, 0)], engagements))
    assert feature(examples, "likes") == pytest.approx(np.log1p(1))
    assert feature(examples, "impressions") == 0.0
    assert feature(examples, "age") == pytest.approx(np.log1p(2))
    assert feature(examples, "media") == 1.0


def test_affinity_is_of_the_viewer_to_the_author_and_fades_in_a_fortnight() -> None:
    liked, shown = HOUR, HOUR + 14 * 24 * HOUR
    engagements = [(CAT, POST_OF_ANN, liked, REPLY), (BOB, POST_OF_ANN, liked, HIDE)]
    examples = replayed(log_of([(CAT, POST_OF_ANN, shown, 0)], engagements))
    assert feature(examples, "affinity") == pytest.approx(np.log1p(1.5))


def test_dwelling_on_a_post_is_affinity_and_the_second_sight_of_it_is_known() -> None:
    examples = replayed(log_of([(CAT, POST_OF_ANN, 2 * HOUR, 5_000), (CAT, POST_OF_ANN, 2 * HOUR + 6_000, 0)], []))
    assert [feature(examples, "seen", row) for row in (0, 1)] == [0.0, 1.0]
    assert feature(examples, "affinity", 1) == pytest.approx(np.log1p(0.5), abs=1e-4)
    assert [label(examples, "dwell", row) for row in (0, 1)] == [True, False]


def test_what_somebody_does_with_their_own_posts_is_no_affinity() -> None:
    examples = replayed(log_of([(ANN, POST_OF_ANN, 3 * HOUR, 0)], [(ANN, POST_OF_ANN, 2 * HOUR, LIKE)]))
    assert (feature(examples, "affinity"), feature(examples, "likes")) == (0.0, pytest.approx(np.log1p(1)))


def test_what_was_hidden_has_been_seen() -> None:
    examples = replayed(log_of([(CAT, POST_OF_ANN, 3 * HOUR, 0)], [(CAT, POST_OF_ANN, 2 * HOUR, HIDE)]))
    assert feature(examples, "seen") == 1.0


def test_a_batch_of_impressions_told_at_once_does_not_know_of_itself() -> None:
    batch = [(viewer, POST_OF_ANN, 2 * HOUR, 0) for viewer in range(10, 15)]
    assert np.all(replayed(log_of(batch, [])).features[:, FEATURES.index("impressions")] == 0.0)


def test_favourites_and_pulled_and_own_are_told() -> None:
    seen = [(CAT, POST_OF_BOB, 2 * HOUR, 0), (BOB, POST_OF_BOB, 2 * HOUR + 1, 0), (CAT, POST_OF_ANN, 2 * HOUR + 2, 0)]
    examples = replayed(log_of(seen, [], favourites=[[CAT, BOB], [77, ANN]]))
    rows = range(3)
    assert [feature(examples, "favourite", row) for row in rows] == [1.0, 0.0, 0.0]
    assert [feature(examples, "pulled", row) for row in rows] == [1.0, 1.0, 0.0]
    assert [feature(examples, "own", row) for row in rows] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("signal", "kind"),
    [("like", LIKE), ("reply", REPLY), ("repost", REPOST), ("negative", HIDE), ("negative", LESS_LIKE_THIS)],
)
def test_what_the_viewer_does_within_a_day_is_the_label(signal: str, kind: int) -> None:
    shown = 2 * HOUR
    for after, followed in ((-1, False), (0, True), (LABEL_WINDOW_MS - 1, True), (LABEL_WINDOW_MS, False)):
        examples = replayed(log_of([(CAT, POST_OF_ANN, shown, 0)], [(CAT, POST_OF_ANN, shown + after, kind)]))
        assert label(examples, signal) is followed
        assert examples.labels.sum() == followed


def test_what_is_taken_back_or_done_by_others_or_to_others_is_no_label() -> None:
    shown = 2 * HOUR
    engagements = [
        (CAT, POST_OF_ANN, shown + 1, LIKE),
        (CAT, POST_OF_ANN, shown + 2, UNLIKE),
        (BOB, POST_OF_ANN, shown + 3, LIKE),
        (CAT, POST_OF_BOB, shown + 3, LIKE),
    ]
    assert not replayed(log_of([(CAT, POST_OF_ANN, shown, 0)], engagements)).labels.any()


def test_what_was_done_during_the_look_before_it_was_told_came_of_it() -> None:
    told = 2 * HOUR
    log = log_of([(CAT, POST_OF_ANN, told, 4_000)], [(CAT, POST_OF_ANN, told - 5_000, LIKE)])
    examples = replay(log, told_within_ms=2_000)
    assert label(examples, "like")
    assert feature(examples, "likes") == 0.0
    assert examples.shown_at_ms.tolist() == [told - 6_000]


def test_impressions_whose_window_is_not_over_and_those_of_unknown_posts_are_left_out() -> None:
    seen = [(CAT, POST_OF_ANN, 2 * HOUR, 0), (CAT, POST_OF_ANN, 2 * HOUR + 1, 0), (CAT, 999, HOUR, 0)]
    assert len(replayed(log_of(seen, [], ends=2 * HOUR + LABEL_WINDOW_MS))) == 1


def test_an_empty_log_gives_no_examples() -> None:
    nothing = np.zeros(0, POST), np.zeros(0, IMPRESSION), np.zeros(0, ENGAGEMENT)
    log = Log(
        posts=nothing[0],
        impressions=nothing[1],
        engagements=nothing[2],
        favourites=np.zeros((0, 2), np.int64),
        pulled=np.zeros(0, np.int64),
    )
    examples = replay(log)
    assert examples.features.shape == (0, len(FEATURES))
    assert examples.labels.shape == (0, len(PREDICTED))


ACTIONS = st.tuples(
    st.integers(0, 4), st.sampled_from((POST_OF_ANN, POST_OF_BOB)), st.integers(2 * HOUR, 60 * HOUR)
).flatmap(lambda row: st.tuples(*map(st.just, row), st.integers(0, len(ENGAGEMENTS) - 1)))


@given(st.lists(ACTIONS, max_size=30), st.integers(2 * HOUR, 70 * HOUR))
def test_nothing_that_happens_later_changes_what_was_known(engagements: list[tuple[Any, ...]], shown: int) -> None:
    seen = [(CAT, POST_OF_ANN, shown, 0)]
    earlier = [row for row in engagements if row[2] < shown]
    everything, past = replayed(log_of(seen, engagements)), replayed(log_of(seen, earlier))
    assert np.array_equal(everything.features, past.features)
