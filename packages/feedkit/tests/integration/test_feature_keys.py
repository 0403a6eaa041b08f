"""Each step that writes to a key of the ranked view does what is told of it, on a real server and against a small model."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from feedkit import feature_keys
from feedkit.feature_keys import AFFINITY_HALF_LIFE, AUTHOR_HALF_LIFE, ORDER_ID_BYTES, POST_HALF_LIFE, Sums, Traits
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.integration

Run = Callable[..., list[Any]]

POST, AUTHOR, VIEWER = 5, 6, 7
LIFE_MS = 500_000
NOW = 1_800_000_000.0
BIG = 2**62 + 2**53
"""From here on a double does not tell neighbours apart."""
NEAR = 1e-4
"""How far off sums of small numbers may be, which are kept as floats of 4 bytes."""

IDS = st.integers(1, 12) | st.integers(BIG, BIG + 5) | st.integers(2**63 - 5, 2**63 - 1)
ADDENDS = st.builds(Sums, *[st.integers(-4, 9).map(float)] * len(Sums._fields))


def times(half_life: float) -> st.SearchStrategy[float]:
    """Times that writers believe it is; those of some go slow, or step back."""
    return st.floats(-3, 6).map(lambda half_lives: NOW + half_life * half_lives)


def faded(seconds: float, half_life: float) -> float:
    """What is left of 1."""
    return 2.0 ** (-max(seconds, 0.0) / half_life)


def plus(sums: Sequence[float], fade: float, added: Sequence[float]) -> list[float]:
    """Sums that have faded, with what is added."""
    return [max(one * fade + other, 0.0) for one, other in zip(sums, added, strict=True)]


def written(run: Run, key: str) -> bytes:
    """A value as it was just written; its life is checked on the way."""
    raw, life = run(("GET", key), ("PTTL", key))
    assert LIFE_MS - 60_000 < life <= LIFE_MS
    return raw


def absent(run: Run, key: str) -> bool:
    """Whether there is no such key."""
    return run(("EXISTS", key)) == [0]


def near(numbers: Sequence[float] | Mapping[int, float]) -> Any:
    """Equal but for rounding."""
    return pytest.approx(numbers, rel=1e-5, abs=NEAR)


# --- posts and authors ------------------------------------------------------------------------------------------------


@dataclass
class Signals:
    """What the key of a post holds, and the few lines that each script amounts to."""

    traits: tuple[int, ...] = (0, 0, 0, 0, 0)
    at: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * len(Sums._fields))
    recent: list[float] = field(default_factory=lambda: [0.0] * len(Sums._fields))

    @classmethod
    def of(cls, raw: bytes) -> "Signals":
        """As the layout has it."""
        assert len(raw) == feature_keys.POST_BYTES
        *traits, at = struct.unpack_from(">5Id", raw)
        numbers = struct.unpack_from(">12f", raw, 28)
        return cls(tuple(traits), at, list(numbers[:6]), list(numbers[6:]))

    def observe(self, now: float, added: Sums) -> None:
        """After some more was seen of it."""
        self.sums = plus(self.sums, 1.0, added)
        self.recent = plus(self.recent, faded(now - self.at, POST_HALF_LIFE), added)
        self.at = max(self.at, now)


def width(dtype: Sequence[tuple[Any, ...]]) -> int:
    """How many bytes a layout has."""
    return sum(int(kind[-1]) * (shape[0][0] if shape else 1) for _, kind, *shape in dtype)


def test_each_kind_of_key_has_its_documented_name_and_width() -> None:
    kinds = [
        feature_keys.post_signals,
        feature_keys.author_signals,
        feature_keys.affinity,
        feature_keys.seen,
        feature_keys.orders,
    ]
    names = ["signals:v1:7", "author-signals:v1:7", "affinity:v1:7", "seen:v1:7", "ranked:v1:7"]
    assert [kind(7) for kind in kinds] == names
    assert width(feature_keys.POST_DTYPE) == feature_keys.POST_BYTES
    assert width(feature_keys.AUTHOR_DTYPE) == feature_keys.AUTHOR_BYTES == len(feature_keys.ENDED_AUTHOR_SIGNALS)


@given(st.lists(st.tuples(times(POST_HALF_LIFE), ADDENDS), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_what_is_observed_of_a_post_adds_up_fades_and_never_falls_below_nothing(
    run: Run, observations: list[tuple[float, Sums]]
) -> None:
    model = Signals()
    run(("DEL", feature_keys.post_signals(POST)))
    for now, added in observations:
        model.observe(now, added)
        assert run(feature_keys.observe_post(POST, now, added, LIFE_MS)) == [1]
        found = Signals.of(written(run, feature_keys.post_signals(POST)))
        assert (found.traits, found.at) == (model.traits, model.at)
        assert (found.sums, found.recent) == (near(model.sums), near(model.recent))


TRAITS = st.builds(Traits, st.booleans(), st.booleans(), st.lists(st.integers(1, 2**32 - 1), max_size=6))


@given(st.lists(ADDENDS | TRAITS, min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_traits_leave_the_sums_as_they_are_and_are_left_by_them(run: Run, steps: list[Sums | Traits]) -> None:
    key, model = feature_keys.post_signals(POST), Signals()
    run(("DEL", key))
    for step in steps:
        if isinstance(step, Sums):
            model.observe(NOW, step)
            run(feature_keys.observe_post(POST, NOW, step, LIFE_MS))
        else:
            flags = feature_keys.TRAITS_KNOWN | 2 * step.has_media | 4 * step.is_reply
            model.traits = (flags, *[*step.topics, 0, 0, 0, 0][:4])
            assert run(feature_keys.set_traits(POST, step, LIFE_MS)) == [1]
        found = Signals.of(written(run, key))
        assert (found.traits, found.sums, found.recent) == (model.traits, near(model.sums), near(model.recent))


def test_traits_give_a_key_its_life_and_prolong_none(run: Run) -> None:
    key, traits = feature_keys.post_signals(POST), Traits(True, False, [])
    run(("DEL", key), feature_keys.observe_post(POST, NOW, Sums(1), LIFE_MS))
    run(feature_keys.set_traits(POST, traits, 10 * LIFE_MS))
    assert Signals.of(written(run, key)).sums[0] == 1.0


@given(st.lists(st.tuples(times(AUTHOR_HALF_LIFE), ADDENDS), min_size=1, max_size=6))
@settings(max_examples=100, deadline=None)
def test_what_is_observed_of_an_author_fades_and_never_falls_below_nothing(
    run: Run, observations: list[tuple[float, Sums]]
) -> None:
    at, recent = 0.0, [0.0] * len(Sums._fields)
    run(("DEL", feature_keys.author_signals(AUTHOR)))
    for now, added in observations:
        recent = plus(recent, faded(now - at, AUTHOR_HALF_LIFE), added)
        at = max(at, now)
        assert run(feature_keys.observe_author(AUTHOR, now, added, LIFE_MS)) == [1]
        found_at, *found = struct.unpack(">d6f", written(run, feature_keys.author_signals(AUTHOR)))
        assert (found_at, found) == (at, near(recent))


def test_a_clock_that_is_behind_neither_lets_sums_fade_nor_grow(run: Run) -> None:
    run(("DEL", feature_keys.post_signals(POST)), feature_keys.observe_post(POST, NOW, Sums(likes=4), LIFE_MS))
    run(feature_keys.observe_post(POST, NOW - 1000 * POST_HALF_LIFE, Sums(likes=1), LIFE_MS))
    found = Signals.of(written(run, feature_keys.post_signals(POST)))
    assert (found.at, found.recent[1]) == (NOW, 5.0)


def test_what_is_no_number_does_not_stay(run: Run) -> None:
    key = feature_keys.author_signals(AUTHOR)
    run(("SET", key, struct.pack(">d6f", NOW, *[float("nan")] * 6)))
    run(feature_keys.observe_author(AUTHOR, NOW, Sums(likes=2), LIFE_MS))
    run(feature_keys.observe_author(AUTHOR, NOW, Sums(likes=3), LIFE_MS))
    assert struct.unpack(">d6f", written(run, key)) == (NOW, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0)


# --- affinity ---------------------------------------------------------------------------------------------------------


def affinities(raw: bytes, now: float) -> dict[int, float]:
    """The affinity to each author at a time, as readers make it of a value. Authors are ascending."""
    (at,) = struct.unpack_from(">d", raw)
    pairs = list(struct.iter_unpack(">qf", raw[feature_keys.AFFINITY_AT_BYTES :]))
    assert [author for author, _ in pairs] == sorted({author for author, _ in pairs})
    return {author: score * faded(now - at, AFFINITY_HALF_LIFE) for author, score in pairs}


@dataclass
class Affinity:
    """Scores as they were at a time, which the first one to write gives, and nobody before."""

    at: float
    scores: dict[int, float] = field(default_factory=dict[int, float])

    def observe(self, now: float, added: Mapping[int, float]) -> None:
        """After some more was seen."""
        for author, score in added.items():
            worth = score / faded(now - self.at, AFFINITY_HALF_LIFE)
            self.scores[author] = self.scores.get(author, 0.0) + worth


SCORES = st.dictionaries(IDS, st.integers(-6, 9).map(float), min_size=1, max_size=4)


@given(st.lists(st.tuples(times(AFFINITY_HALF_LIFE), SCORES), min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_affinity_adds_up_for_each_author_and_fades(run: Run, steps: list[tuple[float, Mapping[int, float]]]) -> None:
    key, model, latest = feature_keys.affinity(VIEWER), Affinity(steps[0][0]), max(now for now, _ in steps)
    run(("DEL", key))
    for now, added in steps:
        model.observe(now, added)
        assert run(feature_keys.observe_affinity(VIEWER, now, added, 100, LIFE_MS)) == [1]
        found, fade = affinities(written(run, key), latest), faded(latest - model.at, AFFINITY_HALF_LIFE)
        assert found == near({author: score * fade for author, score in model.scores.items()})


@given(st.permutations([-9.0, -7.0, -4.0, -2.0, 1.0, 3.0, 5.0, 8.0]), st.integers(1, 8), st.integers(1, 8))
@settings(max_examples=50, deadline=None)
def test_of_too_many_authors_those_are_kept_who_are_farthest_from_nothing(
    run: Run, scores: list[float], most: int, at_once: int
) -> None:
    key = feature_keys.affinity(VIEWER)
    run(("DEL", key))
    pairs = list(enumerate(scores, BIG))
    for start in range(0, len(pairs), at_once):
        run(feature_keys.observe_affinity(VIEWER, NOW, dict(pairs[start : start + at_once]), most, LIFE_MS))
    kept = sorted(pairs, key=lambda pair: -abs(pair[1]))[:most]
    assert affinities(written(run, key), NOW) == dict(kept)


def test_of_authors_who_are_equally_near_no_more_are_dropped_than_have_to(run: Run) -> None:
    key = feature_keys.affinity(VIEWER)
    added = {1: 2.0, 2: 1.0, 3: -2.0, 4: 2.0, 5: 0.5}
    run(("DEL", key), feature_keys.observe_affinity(VIEWER, NOW, added, 2, LIFE_MS))
    kept = affinities(written(run, key), NOW)
    assert len(kept) == 2
    assert set(map(abs, kept.values())) == {2.0}


def test_affinity_of_a_year_ago_has_faded_and_what_comes_is_as_exact_as_ever(run: Run) -> None:
    key, year = feature_keys.affinity(VIEWER), 365 * 86_400.0
    run(("DEL", key))
    for now in (NOW, NOW + year, NOW + 2 * year, NOW + 20 * year):
        run(feature_keys.observe_affinity(VIEWER, now, {1: 1.0, 2: -4.0}, 9, LIFE_MS))
        assert affinities(written(run, key), now) == near({1: 1.0, 2: -4.0})


def test_what_a_clock_that_is_behind_adds_is_worth_no_more_than_it_says(run: Run) -> None:
    key = feature_keys.affinity(VIEWER)
    run(("DEL", key), feature_keys.observe_affinity(VIEWER, NOW, {1: 4.0}, 9, LIFE_MS))
    run(feature_keys.observe_affinity(VIEWER, NOW - 1000 * AFFINITY_HALF_LIFE, {1: 1.0, 2: 2.0}, 9, LIFE_MS))
    assert affinities(written(run, key), NOW) == {1: 5.0, 2: 2.0}


# --- what was seen ----------------------------------------------------------------------------------------------------


def see(before: Sequence[int], seen_now: Sequence[int], most: int) -> list[int]:
    """The few lines that a sight amounts to."""
    after = list(before)
    for post_id in seen_now:
        hidden = -abs(post_id) in {post_id, *after}
        after = [other for other in after if abs(other) != abs(post_id)]
        after.append(-abs(post_id) if hidden else post_id)
    return after[-most:]


def seen(run: Run) -> list[int]:
    """The posts that were seen, oldest sight first."""
    raw = written(run, feature_keys.seen(VIEWER))
    return [post_id for (post_id,) in struct.iter_unpack(">q", raw)]


# Bytes of one another, so that one id may be found across two.
ALIKE = st.lists(st.sampled_from([1, 5]), min_size=8, max_size=8).map(lambda some: int.from_bytes(bytes(some)))
SIGHTS = st.lists(
    (IDS | ALIKE).flatmap(lambda post_id: st.sampled_from([post_id, post_id, -post_id])), min_size=1, max_size=6
)


@given(st.lists(st.tuples(SIGHTS, st.integers(1, 8)), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_posts_are_seen_once_in_the_order_of_the_last_sight_and_stay_hidden(
    run: Run, steps: list[tuple[list[int], int]]
) -> None:
    model: list[int] = []
    run(("DEL", feature_keys.seen(VIEWER)))
    for sights, most in steps:
        model = see(model, sights, most)
        assert run(feature_keys.observe_seen(VIEWER, sights, most, LIFE_MS)) == [1]
        assert seen(run) == model


def test_a_hidden_post_that_is_seen_again_is_hidden(run: Run) -> None:
    run(("DEL", feature_keys.seen(VIEWER)), feature_keys.observe_seen(VIEWER, [4, -POST, 6], 9, LIFE_MS))
    run(feature_keys.observe_seen(VIEWER, [POST, POST], 9, LIFE_MS))
    assert seen(run) == [4, 6, -POST]


# --- orders -----------------------------------------------------------------------------------------------------------

ORDERS = st.lists(st.binary(max_size=20), min_size=1, max_size=6)


@given(ORDERS, st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_the_latest_orders_are_kept_and_found_by_their_ids(run: Run, orders: list[bytes], most: int) -> None:
    key = feature_keys.orders(VIEWER)
    run(("DEL", key))
    ids = [bytes([place]) * ORDER_ID_BYTES for place in range(len(orders))]
    for order_id, order in zip(ids, orders, strict=True):
        assert run(feature_keys.keep_order(VIEWER, order_id, order, most, LIFE_MS)) == [1]
    raw = written(run, key)
    found = [feature_keys.find_order(raw, order_id) for order_id in ids]
    assert found == [None] * (len(orders) - most) + orders[-most:]


@given(st.binary(max_size=60), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_an_order_is_found_whatever_was_there_before(run: Run, garbage: bytes, most: int) -> None:
    key, order_id = feature_keys.orders(VIEWER), b"an order"
    run(("SET", key, garbage), feature_keys.keep_order(VIEWER, order_id, b"the order", most, LIFE_MS))
    raw = written(run, key)
    assert feature_keys.find_order(raw, order_id) == b"the order"
    assert len(raw) <= 12 + len(b"the order") + len(garbage)


@given(st.binary(max_size=60), st.binary(min_size=ORDER_ID_BYTES, max_size=ORDER_ID_BYTES))
def test_nothing_is_found_in_what_holds_no_such_order(garbage: bytes, order_id: bytes) -> None:
    found = feature_keys.find_order(garbage, order_id)
    assert found is None or garbage.find(order_id + len(found).to_bytes(4) + found) >= 0
    assert feature_keys.find_order(None, order_id) is None


# --- what was not written by us, and who is gone ----------------------------------------------------------------------

STEPS = {
    feature_keys.post_signals(POST): feature_keys.observe_post(POST, NOW, Sums(likes=1), LIFE_MS),
    feature_keys.author_signals(AUTHOR): feature_keys.observe_author(AUTHOR, NOW, Sums(likes=1), LIFE_MS),
    feature_keys.affinity(VIEWER): feature_keys.observe_affinity(VIEWER, NOW, {AUTHOR: 1.0}, 9, LIFE_MS),
    feature_keys.seen(VIEWER): feature_keys.observe_seen(VIEWER, [POST], 9, LIFE_MS),
    feature_keys.orders(VIEWER): feature_keys.keep_order(VIEWER, b"an order", b"1", 3, LIFE_MS),
}
TRAITS_STEP = feature_keys.set_traits(POST, Traits(True, True, [1]), LIFE_MS)


@pytest.mark.parametrize("garbage", [("SET", b"x"), ("SET", bytes(11)), ("HSET", "field", "value"), ("LPUSH", "value")])
@pytest.mark.parametrize(("key", "step"), [*STEPS.items(), (feature_keys.post_signals(POST), TRAITS_STEP)])
def test_what_was_not_written_by_us_is_replaced(run: Run, key: str, step: Any, garbage: tuple[Any, ...]) -> None:
    run(("DEL", key), step)
    fresh = written(run, key)
    command, *values = garbage
    run(("DEL", key), (command, key, *values), step)
    assert written(run, key) == fresh


def test_what_comes_late_of_a_deleted_user_makes_nothing_again(run: Run) -> None:
    run(*feature_keys.end(VIEWER, LIFE_MS))
    answers = run(
        feature_keys.observe_author(VIEWER, NOW, Sums(likes=-1), LIFE_MS),
        feature_keys.observe_affinity(VIEWER, NOW, {AUTHOR: -1.0}, 9, LIFE_MS),
        feature_keys.observe_seen(VIEWER, [POST], 9, LIFE_MS),
    )
    assert answers == [0, 0, 0]
    assert written(run, feature_keys.author_signals(VIEWER)) == feature_keys.ENDED_AUTHOR_SIGNALS
    assert written(run, feature_keys.affinity(VIEWER)) == feature_keys.ENDED_AFFINITY
    assert written(run, feature_keys.seen(VIEWER)) == feature_keys.ENDED_SEEN
    assert absent(run, feature_keys.orders(VIEWER))


def test_what_is_left_of_a_deleted_user_reads_as_nothing(run: Run) -> None:
    run(*feature_keys.end(VIEWER, LIFE_MS))
    assert affinities(written(run, feature_keys.affinity(VIEWER)), NOW) == {}
    assert seen(run) == [0]
    assert struct.unpack(">d6f", written(run, feature_keys.author_signals(VIEWER)))[1:] == (0.0,) * 6
