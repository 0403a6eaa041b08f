"""Features: what they say, and that they always say something."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feedrank.candidates import Candidates
from feedrank.features import DEFINITIONS, FEATURES, NEUTRAL, faded, matrix
from feedrank.signals import OBSERVED
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

NOW = 1_800_000_000.0
HOUR = 3_600.0
SUMS = ("sums", "recent", "author_recent")


def unknown(n: int) -> Candidates:
    """Posts of 12 hours ago of which nothing else is known."""
    flags = np.zeros(n, np.bool_)
    return Candidates(
        post_ids=np.arange(n, 0, -1, dtype=np.int64),
        author_ids=np.ones(n, np.int64),
        created_at_ms=np.full(n, (NOW - 12 * HOUR) * 1_000, np.int64),
        has_media=flags,
        is_reply=flags,
        topics=np.zeros((n, 4), np.uint32),
        sums=np.zeros((n, len(OBSERVED)), np.float32),
        recent=np.zeros((n, len(OBSERVED)), np.float32),
        recent_at=np.zeros(n, np.float64),
        author_recent=np.zeros((n, len(OBSERVED)), np.float32),
        author_recent_at=np.zeros(n, np.float64),
        affinity=np.zeros(n, np.float32),
        is_own=flags,
        is_favourite=flags,
        is_pulled=flags,
        was_seen=flags,
        was_hidden=flags,
    )


def known(**columns: Any) -> Candidates:
    """One post, of which these columns are known: each a value, or the sums by name."""
    rows: dict[str, NDArray[Any]] = {}
    for name, value in columns.items():
        row = [value.get(observed, 0.0) for observed in OBSERVED] if name in SUMS else value
        rows[name] = np.array([row], getattr(unknown(1), name).dtype)
    return replace(unknown(1), **rows)


def feature(name: str, candidates: Candidates) -> float:
    return float(matrix(candidates, NOW)[0, FEATURES.index(name)])


@st.composite
def anything(draw: st.DrawFn) -> Candidates:
    """Whatever the types of the columns can hold."""
    n = draw(st.integers(0, 2))
    base = unknown(n)
    columns = {
        field.name: draw(arrays(getattr(base, field.name).dtype, getattr(base, field.name).shape))
        for field in fields(Candidates)
    }
    return Candidates(**columns)


@settings(max_examples=30, deadline=None)
@given(anything(), st.floats(0, 4e9))
def test_every_feature_is_a_finite_number_whatever_is_known(candidates: Candidates, now: float) -> None:
    features_of_all = matrix(candidates, now)
    assert features_of_all.shape == (len(candidates), len(FEATURES))
    assert features_of_all.dtype == np.float32
    assert np.isfinite(features_of_all).all()


@settings(max_examples=30, deadline=None)
@given(anything(), st.floats(0, 4e9))
def test_a_post_has_the_same_features_in_any_company(candidates: Candidates, now: float) -> None:
    together = matrix(candidates, now)
    for row in range(len(candidates)):
        alone = Candidates(**{f.name: getattr(candidates, f.name)[row : row + 1] for f in fields(Candidates)})
        np.testing.assert_allclose(matrix(alone, now)[0], together[row], rtol=1e-6)


def test_features_are_neutral_where_nothing_is_known() -> None:
    np.testing.assert_allclose(matrix(unknown(3), NOW), np.tile(NEUTRAL, (3, 1)), atol=1e-6)


def test_every_feature_is_documented_and_named_once() -> None:
    assert len(set(FEATURES)) == len(FEATURES)
    assert all(definition.unit and definition.why for definition in DEFINITIONS)


def test_the_readme_says_of_every_feature_what_the_code_says() -> None:
    lines = (Path(__file__).parents[1] / "README.md").read_text().splitlines()
    start = lines.index("| feature | what it is | why |") + 2
    told = [f"| `{definition.name}` | {definition.unit} | {definition.why} |" for definition in DEFINITIONS]
    assert lines[start : start + len(told) + 1] == [*told, ""]


def test_features_mean_what_they_meant_when_models_were_trained() -> None:
    """A failure here asks for another name, or for new models."""
    candidates = known(
        created_at_ms=int((NOW - 2 * HOUR) * 1_000),
        affinity=-3.0,
        author_recent={"impressions": 150.0, "likes": 20.0, "reposts": 4.0, "replies": 1.0, "negatives": 3.9},
        author_recent_at=NOW,
        sums={"impressions": 80.0, "likes": 9.0, "reposts": 3.0, "replies": 1.0, "dwell_seconds": 540.0},
        recent={"impressions": 99.0, "likes": 8.0, "reposts": 4.0},
        recent_at=NOW - HOUR,
        has_media=True,
        is_favourite=True,
        was_seen=True,
    )
    author_rate = (25 + 2.5) / 200
    expected = {
        "age": np.log(3.0),
        "affinity": -np.log(4.0),
        "author_engagement": np.log(author_rate / 0.05),
        "author_negative": np.log((4.0 / 200) / 0.002),
        "impressions": np.log(81.0),
        "likes": np.log(10.0),
        "reposts": np.log(4.0),
        "replies": np.log(2.0),
        "engagement": np.log((13 + 20 * author_rate) / 100 / 0.05),
        "velocity": np.log(1 + 6 * np.log(2.0)),
        "dwell": np.log(7.0),
        "media": 1.0,
        "reply": 0.0,
        "own": 0.0,
        "favourite": 1.0,
        "pulled": 0.0,
        "seen": 1.0,
    }
    assert tuple(expected) == FEATURES
    np.testing.assert_allclose(matrix(candidates, NOW)[0], list(expected.values()), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "column"), [("reply", "is_reply"), ("own", "is_own"), ("pulled", "is_pulled"), ("seen", "was_seen")]
)
def test_flags_are_features_of_their_own(name: str, column: str) -> None:
    changed = matrix(known(**{column: True}), NOW)[0] != matrix(unknown(1), NOW)[0]
    assert [FEATURES[place] for place in np.flatnonzero(changed)] == [name]


def test_a_post_is_taken_for_as_good_as_its_authors_others_until_it_shows() -> None:
    liked = {"author_recent": {"impressions": 1_000.0, "likes": 200.0}, "author_recent_at": NOW}
    fresh = known(**liked)
    assert feature("engagement", fresh) == pytest.approx(feature("author_engagement", fresh))
    ignored = known(**liked, sums={"impressions": 10_000.0})
    assert feature("engagement", ignored) < feature("engagement", unknown(1)) < feature("engagement", fresh)


def test_what_others_have_against_an_author_shows_in_nothing_of_the_authors_own_posts() -> None:
    author = {"impressions": 150.0, "likes": 9.0}
    hidden = author | {"negatives": 40.0}
    assert feature("author_negative", known(author_recent=hidden, author_recent_at=NOW)) > 1.0
    own, own_and_hidden = (known(author_recent=sums, author_recent_at=NOW, is_own=True) for sums in (author, hidden))
    assert matrix(own_and_hidden, NOW).tolist() == matrix(own, NOW).tolist()
    assert feature("author_negative", own) == 0.0


def test_one_like_of_one_impression_does_not_make_an_author_a_favourite_of_everybody() -> None:
    lucky = known(author_recent={"impressions": 1.0, "likes": 1.0}, author_recent_at=NOW)
    proven = known(author_recent={"impressions": 1_000.0, "likes": 200.0}, author_recent_at=NOW)
    assert 0.0 < feature("author_engagement", lucky) < feature("author_engagement", proven)


def test_what_people_did_with_a_post_long_ago_is_not_what_they_talk_about_now() -> None:
    talked_about = [known(recent={"replies": 50.0}, recent_at=NOW - hours * HOUR) for hours in (0, 1, 10, 1_000)]
    velocities = [feature("velocity", candidates) for candidates in talked_about]
    assert velocities == sorted(velocities, reverse=True)
    assert velocities[0] > 1.0
    assert velocities[-1] == 0.0


def test_dislike_is_as_far_below_zero_as_liking_is_above() -> None:
    assert feature("affinity", known(affinity=-5.0)) == -feature("affinity", known(affinity=5.0)) < 0.0


def test_a_post_from_the_future_is_as_new_as_can_be() -> None:
    assert feature("age", known(created_at_ms=int((NOW + HOUR) * 1_000))) == 0.0


def test_sums_are_worth_half_after_each_half_life() -> None:
    sums = np.array([[8.0, 16.0], [-8.0, 0.0]], np.float32)
    after = faded(sums, [NOW - 20.0, NOW - 10.0], NOW, half_life=10.0)
    np.testing.assert_allclose(after, [[2.0, 4.0], [-4.0, 0.0]])


def test_sums_can_share_one_time() -> None:
    np.testing.assert_allclose(faded(np.array([4.0, -2.0]), NOW - 10.0, NOW, half_life=10.0), [2.0, -1.0])
    np.testing.assert_allclose(faded(np.array([[4.0], [-2.0]]), NOW - 10.0, NOW, half_life=10.0), [[2.0], [-1.0]])


def test_sums_of_a_clock_that_is_ahead_do_not_grow() -> None:
    np.testing.assert_allclose(faded(np.array([4.0]), [NOW + 60.0], NOW, half_life=10.0), [4.0])
