"""Each step that writes to a Redis key does what is told of it, on a real server and against a model of a few lines."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from feedkit import key_scripts, keys
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.integration

Run = Callable[..., list[Any]]
Entry = tuple[int, int]

VIEWER = 7
LIFE_MS = 500_000
EPOCH = b"epoch \x00\xff"
ANOTHER_EPOCH = b"another!"
BIG = 2**62 + 2**53
"""From here on a double does not tell neighbours apart."""


def entries_of(*post_ids: int, author: int = 1) -> bytes:
    """Entries of one author, as scripts take them."""
    return keys.encode_entries([(post_id, author) for post_id in post_ids])


@dataclass(frozen=True)
class Timeline:
    """A home timeline, and the few lines that each script amounts to."""

    entries: Mapping[int, int]
    """Authors by post id."""
    horizon: int = 0
    cut: int = 0

    def trimmed(self, most: int) -> "Timeline":
        """Without its oldest entries, if it has more than it may."""
        gone = sorted(self.entries)[:-most]
        if not gone:
            return self
        kept = {post_id: self.entries[post_id] for post_id in self.entries.keys() - set(gone)}
        return Timeline(kept, max(self.horizon, gone[-1]), max(self.cut, gone[-1]))

    def pushed(self, entries: Sequence[Entry], most: int) -> "Timeline":
        """After a push."""
        return replace(self, entries={**dict(entries), **self.entries}).trimmed(most)

    def without(self, post_ids: Collection[int]) -> "Timeline":
        """After a withdrawal."""
        return replace(self, entries={post: author for post, author in self.entries.items() if post not in post_ids})

    def rebuilt(self, left_out: int, entries: Sequence[Entry], most: int) -> "Timeline":
        """After a rebuild."""
        return replace(self, horizon=max(left_out, self.cut)).pushed(entries, most)

    def with_author(self, left_out: int, entries: Sequence[Entry], most: int) -> "Timeline":
        """After a reconcile with a followed author."""
        return replace(self, horizon=max(left_out, self.horizon)).pushed(entries, most)

    def with_history(self, left_out: int, entries: Sequence[Entry], most: int) -> "Timeline":
        """After a history was pushed, of which nobody will see what is not above the horizon."""
        horizon = max(left_out, self.horizon)
        return self.with_author(left_out, [entry for entry in entries if entry[0] > horizon], most)

    def without_author(self, author: int, most: int) -> "Timeline":
        """After a reconcile with an author who is not followed."""
        kept = {post_id: other for post_id, other in self.entries.items() if other != author}
        return replace(self, entries=kept).trimmed(most)


def write(run: Run, timeline: Timeline) -> None:
    """Write a timeline as it is to be found."""
    trailer = keys.encode_trailer(keys.Trailer(timeline.horizon, timeline.cut, EPOCH))
    packed = keys.encode_entries(sorted(timeline.entries.items())) + trailer
    run(("SET", keys.timeline(VIEWER), packed, "PX", LIFE_MS))


def read(run: Run) -> tuple[Timeline, bytes]:
    """The timeline, and its epoch; its life is checked on the way."""
    raw, life = run(key_scripts.read_whole_timeline(VIEWER), ("PTTL", keys.timeline(VIEWER)))
    tail = keys.decode_timeline(raw)
    assert tail is not None
    assert LIFE_MS - 60_000 < life <= LIFE_MS, "every write keeps the life of the key"
    post_ids, author_ids = tail.columns(0, tail.length)
    assert list(post_ids) == sorted(set(post_ids)), "oldest first, none twice"
    horizon, cut, epoch = tail.trailer
    return Timeline(dict(zip(post_ids, author_ids, strict=True)), horizon, cut), epoch


def posts(*post_ids: int, author: int = 1) -> dict[int, int]:
    """The entries of a `Timeline`, of one author."""
    return dict.fromkeys(post_ids, author)


# --- push -------------------------------------------------------------------------------------------------------------


def push(run: Run, *post_ids: int, most: int = 3) -> int:
    """The answer of a push."""
    [answer] = run(key_scripts.push(VIEWER, entries_of(*post_ids), most))
    return answer


def test_a_push_never_creates_a_timeline(run: Run) -> None:
    run(key_scripts.delete_timeline(VIEWER))
    assert push(run, 5) == 0
    assert run(("EXISTS", keys.timeline(VIEWER))) == [0]


@pytest.mark.parametrize(
    ("before", "pushed", "after"),
    [
        pytest.param(Timeline({}), [5], Timeline(posts(5)), id="into an empty timeline"),
        pytest.param(Timeline(posts(1, 2)), [5], Timeline(posts(1, 2, 5)), id="the newest"),
        pytest.param(Timeline(posts(1, 5)), [3], Timeline(posts(1, 3, 5)), id="out of order"),
        pytest.param(Timeline(posts(2, 5)), [1], Timeline(posts(1, 2, 5)), id="the oldest"),
        pytest.param(Timeline(posts(1, 5)), [5], Timeline(posts(1, 5)), id="again, the newest"),
        pytest.param(Timeline(posts(1, 5)), [1], Timeline(posts(1, 5)), id="again, not the newest"),
        pytest.param(Timeline(posts(9), 8), [5], Timeline(posts(5, 9), 8), id="below the horizon"),
        pytest.param(Timeline(posts(1, 2, 3)), [4], Timeline(posts(2, 3, 4), 1, 1), id="one too many"),
        pytest.param(Timeline(posts(2, 3, 4)), [1], Timeline(posts(2, 3, 4), 1, 1), id="one too many, the oldest"),
        pytest.param(Timeline(posts(2, 4, 5)), [3], Timeline(posts(3, 4, 5), 2, 2), id="one too many, out of order"),
        pytest.param(Timeline(posts(3, 4, 5), 9, 1), [6], Timeline(posts(4, 5, 6), 9, 3), id="a higher horizon stays"),
        pytest.param(Timeline(posts(1, 2, 3), 0, 9), [6], Timeline(posts(2, 3, 6), 1, 9), id="a higher cut stays"),
        pytest.param(Timeline(posts(*range(1, 9))), [9], Timeline(posts(7, 8, 9), 6, 6), id="to a length now lower"),
        pytest.param(Timeline(posts(1, 2)), [3, 4], Timeline(posts(2, 3, 4), 1, 1), id="several"),
        pytest.param(Timeline(posts(2, 4)), [1, 3, 5], Timeline(posts(3, 4, 5), 2, 2), id="several, in between"),
        pytest.param(Timeline(posts(1)), [2, 3, 4, 5], Timeline(posts(3, 4, 5), 2, 2), id="more than there is room"),
        pytest.param(Timeline({}), [2, 3, 4, 5], Timeline(posts(3, 4, 5), 2, 2), id="more than there is room, empty"),
        pytest.param(
            Timeline(posts(1, 2, 3)), [4, 5, 6], Timeline(posts(4, 5, 6), 3, 3), id="as much as there is room"
        ),
        pytest.param(
            Timeline(posts(BIG + 1, BIG + 3)),
            [BIG + 2, BIG + 4],
            Timeline(posts(BIG + 2, BIG + 3, BIG + 4), BIG + 1, BIG + 1),
            id="ids that no double holds",
        ),
    ],
)
def test_a_push(run: Run, before: Timeline, pushed: list[int], after: Timeline) -> None:
    write(run, before)
    assert push(run, *pushed) == 1
    assert read(run) == (after, EPOCH)


def test_a_post_keeps_the_author_that_it_came_with(run: Run) -> None:
    write(run, Timeline({5: 2}))
    run(key_scripts.push(VIEWER, keys.encode_entries([(4, 3), (5, 4), (6, 5)]), 9))
    assert read(run)[0].entries == {4: 3, 5: 2, 6: 5}


# --- a history, pushed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "left_out", "pushed", "after"),
    [
        pytest.param(Timeline(posts(1)), 0, [4, 5], Timeline(posts(1, 4, 5)), id="all of it"),
        pytest.param(Timeline(posts(1)), 3, [4, 5], Timeline(posts(1, 4, 5), 3), id="without some"),
        pytest.param(Timeline(posts(1), 6), 3, [4, 5], Timeline(posts(1), 6), id="below a higher horizon"),
        pytest.param(Timeline(posts(1), 5), 3, [4, 5, 6], Timeline(posts(1, 6), 5), id="across the horizon"),
        pytest.param(Timeline(posts(1, 2)), 3, [4, 5], Timeline(posts(2, 4, 5), 3, 1), id="above what is trimmed"),
        pytest.param(Timeline(posts(4, 5)), 1, [2, 6], Timeline(posts(4, 5, 6), 2, 2), id="below what is trimmed"),
        pytest.param(Timeline({}), 3, [4], Timeline(posts(4), 3), id="into an empty timeline"),
        pytest.param(Timeline(posts(4)), 3, [4], Timeline(posts(4), 3), id="what is there already"),
        pytest.param(Timeline(posts(4), 2), 0, [], Timeline(posts(4), 2), id="nothing"),
        pytest.param(Timeline({}), 0, [], Timeline({}), id="nothing, into an empty timeline"),
        pytest.param(
            Timeline(posts(BIG), BIG + 1), BIG + 2, [BIG + 3], Timeline(posts(BIG, BIG + 3), BIG + 2), id="no double"
        ),
    ],
)
def test_a_pushed_history(run: Run, before: Timeline, left_out: int, pushed: list[int], after: Timeline) -> None:
    write(run, before)
    assert run(key_scripts.push_history(VIEWER, ANOTHER_EPOCH, left_out, entries_of(*pushed), 3)) == [1]
    assert read(run) == (after, ANOTHER_EPOCH)


def test_what_is_new_in_a_history_is_pushed_to_timelines_that_have_the_rest(run: Run) -> None:
    write(run, Timeline(posts(1, 2), 1))
    news = key_scripts.push_since(VIEWER, EPOCH, ANOTHER_EPOCH, entries_of(3, 4), 3)
    assert run(news) == [1]
    after = Timeline(posts(2, 3, 4), 1, 1)
    assert read(run) == (after, ANOTHER_EPOCH)
    assert run(news) == [0], "it has been rewritten since"
    assert read(run) == (after, ANOTHER_EPOCH)


def test_a_pushed_history_creates_no_timeline_either(run: Run) -> None:
    run(key_scripts.delete_timeline(VIEWER))
    assert run(
        key_scripts.push_history(VIEWER, ANOTHER_EPOCH, 4, entries_of(5), 3),
        key_scripts.push_since(VIEWER, EPOCH, ANOTHER_EPOCH, entries_of(5), 3),
        ("EXISTS", keys.timeline(VIEWER)),
    ) == [0, 0, 0]


# --- withdrawal -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "withdrawn", "after"),
    [
        pytest.param(posts(1, 2, 3), [2], posts(1, 3), id="in between"),
        pytest.param(posts(1, 2, 3), [1], posts(2, 3), id="the oldest"),
        pytest.param(posts(1, 2, 3), [3], posts(1, 2), id="the newest"),
        pytest.param(posts(1), [1], {}, id="the only one"),
        pytest.param(posts(1, 2, 3, 4), [4, 1, 3], posts(2), id="several, in any order"),
        pytest.param(posts(1, 2), [2, 2], posts(1), id="twice"),
        pytest.param(posts(1, 3), [2, 4, 9], posts(1, 3), id="what is not there"),
        pytest.param(posts(1, 3), [], posts(1, 3), id="nothing"),
        pytest.param({1: 5, 2: 6, 3: 5}, [1], {2: 6, 3: 5}, id="one of several of an author"),
        pytest.param(posts(BIG, BIG + 1, BIG + 2), [BIG + 1], posts(BIG, BIG + 2), id="an id that no double holds"),
    ],
)
def test_a_withdrawal(run: Run, before: dict[int, int], withdrawn: list[int], after: dict[int, int]) -> None:
    write(run, Timeline(before, 2, 1))
    assert run(key_scripts.withdraw(VIEWER, withdrawn)) == [len(before) - len(after)]
    assert read(run) == (Timeline(after, 2, 1), EPOCH), "what it promises and its epoch stay"
    assert run(key_scripts.withdraw(VIEWER, withdrawn)) == [0], "again changes nothing"
    assert read(run) == (Timeline(after, 2, 1), EPOCH)


def test_a_withdrawal_never_creates_a_timeline(run: Run) -> None:
    run(key_scripts.delete_timeline(VIEWER))
    assert run(key_scripts.withdraw(VIEWER, [5]), ("EXISTS", keys.timeline(VIEWER))) == [0, 0]


# --- creation and life ------------------------------------------------------------------------------------------------


def test_a_timeline_is_created_empty_above_its_horizon_and_only_where_there_is_none(run: Run) -> None:
    run(key_scripts.delete_timeline(VIEWER))
    assert run(key_scripts.create_timeline(VIEWER, BIG, LIFE_MS)) == [b"OK"]
    created, epoch = read(run)
    assert created == Timeline({}, BIG, 0)
    assert run(key_scripts.create_timeline(VIEWER, 1, LIFE_MS)) == [None]
    assert read(run) == (created, epoch)


def test_timelines_are_never_created_with_the_same_epoch(run: Run) -> None:
    epochs: set[bytes] = set()
    for _ in range(20):
        run(key_scripts.delete_timeline(VIEWER), key_scripts.create_timeline(VIEWER, 1, LIFE_MS))
        epochs.add(read(run)[1])
    assert len(epochs) == 20


def test_the_life_of_a_timeline_can_be_renewed_if_it_is_still_there(run: Run) -> None:
    write(run, Timeline({}))
    run(key_scripts.keep_timeline(VIEWER, 2 * LIFE_MS))
    [life] = run(("PTTL", keys.timeline(VIEWER)))
    assert LIFE_MS < life <= 2 * LIFE_MS
    run(key_scripts.delete_timeline(VIEWER), key_scripts.keep_timeline(VIEWER, LIFE_MS))
    assert run(("EXISTS", keys.timeline(VIEWER))) == [0]


def test_so_many_of_the_newest_entries_are_read(run: Run) -> None:
    write(run, Timeline(posts(1, 2, 3), 1))
    for newest, expected in ((0, ()), (2, (2, 3)), (3, (1, 2, 3)), (9, (1, 2, 3))):
        [raw] = run(key_scripts.read_timeline(VIEWER, newest))
        tail = keys.decode_timeline(raw)
        assert tail is not None
        assert (tail.columns(0, tail.length)[0], tail.trailer.horizon) == (expected, 1)
    assert run(key_scripts.delete_timeline(VIEWER), key_scripts.read_timeline(VIEWER, 9)) == [1, b""]


# --- rebuild and reconcile --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "left_out", "added", "after"),
    [
        pytest.param(Timeline({}, 99), 0, [1, 2], Timeline(posts(1, 2)), id="down to the beginning"),
        pytest.param(Timeline({}, 99), 1, [2, 3, 4], Timeline(posts(2, 3, 4), 1), id="down to what was left out"),
        pytest.param(Timeline({}, 99), 0, [], Timeline({}), id="nothing"),
        pytest.param(Timeline(posts(6), 5), 0, [4], Timeline(posts(4, 6)), id="beside what was pushed meanwhile"),
        pytest.param(Timeline(posts(6, 7), 5), 2, [3, 6, 7], Timeline(posts(3, 6, 7), 2), id="also read meanwhile"),
        pytest.param(Timeline(posts(7, 8, 9), 6, 6), 1, [2, 3, 4], Timeline(posts(7, 8, 9), 6, 6), id="the cut counts"),
        pytest.param(
            Timeline(posts(8, 9), 7, 6), 1, [2], Timeline(posts(2, 8, 9), 6, 6), id="the cut counts, with room"
        ),
        pytest.param(Timeline(posts(8, 9), 7), 1, [2, 3], Timeline(posts(3, 8, 9), 2, 2), id="one too many"),
    ],
)
def test_a_rebuild(run: Run, before: Timeline, left_out: int, added: list[int], after: Timeline) -> None:
    write(run, before)
    assert run(key_scripts.rebuild(VIEWER, EPOCH, left_out, entries_of(*added), 3)) == [1]
    timeline, epoch = read(run)
    assert timeline == after
    assert epoch != EPOCH


@pytest.mark.parametrize(
    ("before", "left_out", "added", "after"),
    [
        pytest.param(Timeline(posts(3), 2), 0, [4], Timeline(posts(3, 4), 2), id="beside others"),
        pytest.param(Timeline(posts(3), 2), 0, [], Timeline(posts(3), 2), id="nothing"),
        pytest.param(Timeline({}, 2), 5, [6], Timeline(posts(6), 5), id="some were left out"),
        pytest.param(Timeline({}, 7), 5, [8], Timeline(posts(8), 7), id="some below the horizon were left out"),
        pytest.param(Timeline(posts(5, 6, 7), 1), 0, [4, 8], Timeline(posts(6, 7, 8), 5, 5), id="too many"),
        pytest.param(Timeline(posts(5, 6, 7), 4, 4), 0, [3], Timeline(posts(5, 6, 7), 4, 4), id="trimmed since"),
    ],
)
def test_a_reconcile_with_a_followed_author(
    run: Run, before: Timeline, left_out: int, added: list[int], after: Timeline
) -> None:
    write(run, before)
    assert run(key_scripts.add_author(VIEWER, EPOCH, 1, left_out, entries_of(*added), 3)) == [1]
    timeline, epoch = read(run)
    assert timeline == after
    assert epoch != EPOCH


def test_a_reconcile_with_an_author_who_is_not_followed(run: Run) -> None:
    write(run, Timeline({1: 1, 2: BIG, 3: 1, 4: BIG + 1, 5: BIG}, 1, 1))
    assert run(key_scripts.remove_author(VIEWER, EPOCH, BIG, 9)) == [1]
    timeline, epoch = read(run)
    assert timeline == Timeline({1: 1, 3: 1, 4: BIG + 1}, 1, 1)
    assert epoch != EPOCH
    assert run(key_scripts.remove_author(VIEWER, epoch, 1, 9)) == [1]
    assert read(run)[0] == Timeline({4: BIG + 1}, 1, 1)


def test_a_timeline_of_another_epoch_or_none_is_left_alone(run: Run) -> None:
    before = Timeline(posts(1, 2), 1)
    steps = [
        key_scripts.rebuild(VIEWER, ANOTHER_EPOCH, 0, entries_of(3), 9),
        key_scripts.add_author(VIEWER, ANOTHER_EPOCH, 1, 0, entries_of(3), 9),
        key_scripts.remove_author(VIEWER, ANOTHER_EPOCH, 1, 9),
        key_scripts.push_since(VIEWER, ANOTHER_EPOCH, EPOCH, entries_of(3), 9),
    ]
    write(run, before)
    assert run(*steps) == [0, 0, 0, 0]
    assert read(run) == (before, EPOCH)
    run(key_scripts.delete_timeline(VIEWER))
    assert run(*steps, ("EXISTS", keys.timeline(VIEWER))) == [0, 0, 0, 0, 0]


ID_BYTES = st.binary(min_size=8, max_size=8).map(lambda some: int.from_bytes(some) % 2**63).filter(bool)
IDS = st.integers(1, 25) | st.integers(BIG, BIG + 25) | ID_BYTES
"""Neighbours, neighbours beyond what a double holds, and bytes that a locale would order in a way of its own."""


def author_of(post_id: int) -> int:
    """Every post has one author, whoever tells of it."""
    return post_id % 3 + 1


ENTRIES = st.lists(IDS, unique=True, max_size=6).map(
    lambda ids: [(post_id, author_of(post_id)) for post_id in sorted(ids)]
)
MOST = st.integers(1, 6)
STEPS = st.one_of(
    st.tuples(st.just("push"), st.just(0), ENTRIES.filter(bool), MOST),
    st.tuples(st.just("withdraw"), st.just(0), ENTRIES, MOST),
    st.tuples(st.sampled_from(["rebuild", "add_author", "push_history"]), IDS | st.just(0), ENTRIES, MOST),
    st.tuples(st.just("push_since"), st.just(0), ENTRIES, MOST),
    st.tuples(st.just("remove_author"), st.integers(1, 3), st.just([]), MOST),
)


@given(ENTRIES, IDS | st.just(0), IDS | st.just(0), st.lists(STEPS, max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_steps_come_to_what_the_model_comes_to(
    run: Run, first: list[Entry], horizon: int, cut: int, steps: list[tuple[str, int, list[Entry], int]]
) -> None:
    model, epoch = Timeline(dict(first), horizon, cut), EPOCH
    trailer = keys.encode_trailer(keys.Trailer(horizon, cut, epoch))
    run(("SET", keys.timeline(VIEWER), keys.encode_entries(first) + trailer, "PX", LIFE_MS))
    for step, number, entries, most in steps:
        packed, expected = keys.encode_entries(entries), 1
        match step:
            case "push":
                command, model = key_scripts.push(VIEWER, packed, most), model.pushed(entries, most)
            case "push_since":
                command = key_scripts.push_since(VIEWER, epoch, key_scripts.new_epoch(), packed, most)
                model = model.with_history(0, entries, most)
            case "push_history":
                command = key_scripts.push_history(VIEWER, key_scripts.new_epoch(), number, packed, most)
                model = model.with_history(number, entries, most)
            case "withdraw":
                # Of what is there, and of what is not.
                withdrawn = [*dict(entries), *sorted(model.entries)[::2]]
                command, expected = key_scripts.withdraw(VIEWER, withdrawn), len(model.entries)
                model = model.without(withdrawn)
                expected -= len(model.entries)
            case "rebuild":
                command = key_scripts.rebuild(VIEWER, epoch, number, packed, most)
                model = model.rebuilt(number, entries, most)
            case "add_author":
                command = key_scripts.add_author(VIEWER, epoch, 1, number, packed, most)
                model = model.with_author(number, entries, most)
            case _:
                command = key_scripts.remove_author(VIEWER, epoch, number, most)
                model = model.without_author(number, most)
        assert run(command) == [expected]
        timeline, new_epoch = read(run)
        assert timeline == model
        assert (new_epoch == epoch) == (step in {"push", "withdraw"})
        epoch = new_epoch


# --- leases -----------------------------------------------------------------------------------------------------------

KEY = keys.own(5)


def test_a_lease_is_taken_where_nothing_is_and_ends_by_itself(run: Run) -> None:
    mine, other = key_scripts.new_token(), key_scripts.new_token()
    run(key_scripts.forget(KEY))
    taken, refused, held, life = run(
        key_scripts.take_lease(KEY, mine),
        key_scripts.take_lease(KEY, other),
        key_scripts.get(KEY),
        ("PTTL", KEY),
    )
    assert (taken, refused, held) == (b"OK", None, keys.lease(mine))
    assert 0 < life <= key_scripts.LEASE_MS
    assert keys.payload(held) is None


def test_the_holder_of_the_lease_fills_for_so_long_as_it_says(run: Run) -> None:
    token = key_scripts.new_token()
    run(key_scripts.forget(KEY), key_scripts.take_lease(KEY, token))
    filled, value, life = run(
        key_scripts.fill(KEY, token, b"the \x00truth", LIFE_MS), key_scripts.get(KEY), ("PTTL", KEY)
    )
    assert (filled, keys.payload(value)) == (1, b"the \x00truth")
    assert LIFE_MS - 60_000 < life <= LIFE_MS
    assert run(key_scripts.take_lease(KEY, key_scripts.new_token())) == [None]


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param([], id="deleted"),
        pytest.param([key_scripts.take_lease(KEY, b"somebody else's!")], id="leased to another"),
        pytest.param([("SET", KEY, keys.value(b"newer"))], id="filled by another"),
    ],
)
def test_who_has_lost_the_lease_fills_nothing(run: Run, meanwhile: list[Any]) -> None:
    token = key_scripts.new_token()
    run(key_scripts.forget(KEY), key_scripts.take_lease(KEY, token), key_scripts.forget(KEY), *meanwhile)
    before, filled, after = run(
        key_scripts.get(KEY), key_scripts.fill(KEY, token, b"older", LIFE_MS), key_scripts.get(KEY)
    )
    assert filled == 0
    assert before == after


def test_several_values_are_read_and_forgotten_at_once(run: Run) -> None:
    names = [keys.post(1), keys.post(2), keys.post(3)]
    run(key_scripts.forget(*names), ("SET", names[0], keys.value(b"")), key_scripts.take_lease(names[2], b"x" * 16))
    [values] = run(key_scripts.get_many(names))
    assert [keys.payload(value) for value in values] == [b"", None, None]
    assert run(key_scripts.forget(*names), ("EXISTS", *names)) == [2, 0]


# --- lists of one author's posts --------------------------------------------------------------------------------------


def add(run: Run, post_id: int, most: int = 3) -> int:
    """The answer of an addition."""
    [answer] = run(key_scripts.add_to_list(KEY, post_id, most))
    return answer


def write_list(run: Run, post_ids: Sequence[int], horizon: int) -> None:
    """Write a list as it is to be found."""
    run(("SET", KEY, keys.value(keys.encode_post_list(post_ids, horizon)), "PX", LIFE_MS))


def read_list(run: Run) -> keys.PostList:
    """The list; its life is checked on the way."""
    raw, life = run(key_scripts.get(KEY), ("PTTL", KEY))
    payload = keys.payload(raw)
    assert payload is not None
    assert LIFE_MS - 60_000 < life <= LIFE_MS, "every write keeps the life of the key"
    return keys.decode_post_list(payload)


def test_an_addition_never_creates_a_list(run: Run) -> None:
    run(key_scripts.forget(KEY))
    assert add(run, 5) == 0
    assert run(("EXISTS", KEY)) == [0]


def test_an_addition_deletes_a_lease_so_that_what_was_read_before_is_not_filled_in(run: Run) -> None:
    token = key_scripts.new_token()
    run(key_scripts.forget(KEY), key_scripts.take_lease(KEY, token))
    assert add(run, 5) == 0
    assert run(key_scripts.fill(KEY, token, keys.encode_post_list([4], 0), LIFE_MS), ("EXISTS", KEY)) == [0, 0]


@pytest.mark.parametrize(
    ("before", "added", "after"),
    [
        pytest.param(((), 0), 5, ((5,), 0), id="the first"),
        pytest.param(((4, 2), 1), 5, ((5, 4, 2), 1), id="the newest"),
        pytest.param(((4, 2), 1), 3, ((4, 3, 2), 1), id="out of order"),
        pytest.param(((4, 3), 1), 2, ((4, 3, 2), 1), id="the oldest"),
        pytest.param(((4, 2), 1), 2, ((4, 2), 1), id="again"),
        pytest.param(((4, 3), 2), 2, ((4, 3), 2), id="at the horizon"),
        pytest.param(((4, 3), 2), 1, ((4, 3), 2), id="below the horizon"),
        pytest.param(((4, 3, 2), 1), 5, ((5, 4, 3), 2), id="one too many"),
        pytest.param(((5, 4, 3), 1), 2, ((5, 4, 3), 2), id="one too many, the oldest"),
        pytest.param(((6, 5, 4, 3, 2), 1), 7, ((7, 6, 5), 4), id="to a length now lower"),
        pytest.param(
            ((BIG + 3, BIG + 1), BIG), BIG + 2, ((BIG + 3, BIG + 2, BIG + 1), BIG), id="ids that no double holds"
        ),
    ],
)
def test_an_addition(run: Run, before: tuple[Sequence[int], int], added: int, after: tuple[Sequence[int], int]) -> None:
    write_list(run, *before)
    assert add(run, added) == 1
    assert read_list(run) == after


@given(st.lists(IDS, unique=True, max_size=6), IDS | st.just(0), st.lists(st.tuples(IDS, MOST), max_size=12))
@settings(max_examples=200, deadline=None)
def test_any_additions_come_to_what_the_model_comes_to(
    run: Run, first: list[int], horizon: int, additions: list[tuple[int, int]]
) -> None:
    model = {post_id for post_id in first if post_id > horizon}
    write_list(run, sorted(model, reverse=True), horizon)
    for post_id, most in additions:
        if post_id > horizon and post_id not in model:
            newest_first = sorted({*model, post_id}, reverse=True)
            horizon = newest_first[most] if len(newest_first) > most else horizon
            model = set(newest_first[:most])
        assert add(run, post_id, most) == 1
        assert read_list(run) == (tuple(sorted(model, reverse=True)), horizon)


# --- what was not written by us ---------------------------------------------------------------------------------------

NO_TIMELINES: list[tuple[str | bytes | int, ...]] = [
    ("SET", keys.timeline(VIEWER), b"short"),
    ("SET", keys.timeline(VIEWER), bytes(keys.TRAILER_BYTES + 1)),
    ("HSET", keys.timeline(VIEWER), "field", "value"),
]


@pytest.mark.parametrize("garbage", NO_TIMELINES)
@pytest.mark.parametrize(
    "step",
    [
        key_scripts.push(VIEWER, entries_of(5), 3),
        key_scripts.rebuild(VIEWER, EPOCH, 0, entries_of(5), 3),
        key_scripts.remove_author(VIEWER, EPOCH, 1, 3),
        key_scripts.withdraw(VIEWER, [5]),
        key_scripts.push_history(VIEWER, EPOCH, 4, entries_of(5), 3),
    ],
    ids=["push", "rebuild", "reconcile", "withdraw", "push history"],
)
def test_what_cannot_be_a_timeline_is_deleted(run: Run, garbage: Any, step: Any) -> None:
    run(("DEL", keys.timeline(VIEWER)), garbage)
    assert run(step) == [0]
    assert run(("EXISTS", keys.timeline(VIEWER))) == [0]


@pytest.mark.parametrize(
    "garbage",
    [("SET", KEY, b"V"), ("SET", KEY, b"V12345"), ("SET", KEY, b"V" + bytes(12)), ("LPUSH", KEY, "value")],
)
def test_what_cannot_be_a_list_is_deleted(run: Run, garbage: Any) -> None:
    run(("DEL", KEY), garbage)
    assert add(run, 5) == 0
    assert run(("EXISTS", KEY)) == [0]


def test_a_fill_leaves_nothing_of_another_type(run: Run) -> None:
    run(("DEL", KEY), ("LPUSH", KEY, "value"))
    assert run(key_scripts.fill(KEY, key_scripts.new_token(), b"payload", LIFE_MS)) == [0]
    assert run(("EXISTS", KEY)) == [0]
