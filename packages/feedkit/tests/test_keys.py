"""What is written to Redis keys is what is read from them."""

import struct
from collections.abc import Sequence

import pytest
from feedkit import keys
from hypothesis import given
from hypothesis import strategies as st

IDS = st.integers(1, 2**63 - 1)
DISTINCT_IDS = st.lists(IDS, unique=True, max_size=50).map(sorted)


def test_each_kind_of_key_has_its_documented_name() -> None:
    kinds = [keys.context, keys.hidden, keys.post, keys.counts, keys.user, keys.own, keys.recents, keys.timeline]
    names = ["ctx", "hidden", "post", "counts", "user", "own", "recents", "tl"]
    assert [kind(7) for kind in kinds] == [f"{name}:v1:7" for name in names]


@given(DISTINCT_IDS, DISTINCT_IDS, st.booleans())
def test_followees_and_choices_survive_a_context(followees: list[int], favourites: list[int], ranked: bool) -> None:
    context = keys.Context(tuple(followees), tuple(favourites), ranked)
    assert keys.decode_context(keys.encode_context(context)) == context


@given(DISTINCT_IDS)
def test_a_context_that_was_written_before_there_were_choices_has_none(followees: list[int]) -> None:
    before = struct.pack(f">I{len(followees)}q", len(followees), *followees)
    assert keys.decode_context(before) == keys.Context(tuple(followees), (), prefers_ranked=False)
    assert keys.encode_context(keys.Context(followees)).startswith(before), (
        "so that those who do not know of them read on"
    )


COUNT = st.integers(0, 2**63 - 1)


@given(COUNT, COUNT, COUNT)
def test_counts_survive(likes: int, reposts: int, replies: int) -> None:
    counts = keys.Counts(likes, reposts, replies)
    assert keys.decode_counts(keys.encode_counts(counts)) == counts


@pytest.mark.parametrize("packed", [b"", bytes(23), bytes(25)])
def test_what_are_no_counts_is_undecodable(packed: bytes) -> None:
    with pytest.raises(keys.Undecodable):
        keys.decode_counts(packed)


@given(st.sets(IDS, max_size=50), st.sets(IDS, max_size=50), st.booleans(), st.sets(IDS, max_size=10))
def test_hidden_authors_survive_and_nobody_else_is_hidden(
    blocked: set[int], muted: set[int], more_block: bool, others: set[int]
) -> None:
    decoded = keys.decode_hidden(keys.encode_hidden(keys.HiddenAuthors(blocked, muted, more_block)))
    assert (list(decoded.blocked), list(decoded.muted)) == (sorted(blocked), sorted(muted))
    assert (len(decoded.blocked), len(decoded.muted), decoded.more_block) == (len(blocked), len(muted), more_block)
    for some_id in blocked | muted | others:
        for neighbour in (some_id - 1, some_id, some_id + 1):
            assert (neighbour in decoded.blocked) == (neighbour in blocked)
            assert (neighbour in decoded.muted) == (neighbour in muted)
    assert "7" not in decoded.blocked


def test_that_nobody_is_hidden_takes_five_bytes() -> None:
    assert len(keys.encode_hidden(keys.HiddenAuthors((), (), more_block=False))) == 5


@given(DISTINCT_IDS, IDS | st.just(0))
def test_a_list_of_posts_survives(post_ids: list[int], horizon: int) -> None:
    assert keys.decode_post_list(keys.encode_post_list(post_ids[::-1], horizon)) == (tuple(post_ids[::-1]), horizon)


@given(IDS)
def test_an_announced_id_survives(some_id: int) -> None:
    assert keys.decode_id(keys.encode_id(some_id)) == some_id


@given(st.binary(max_size=40))
def test_a_payload_survives_and_nothing_is_known_of_an_absent_or_leased_key(payload: bytes) -> None:
    assert keys.payload(keys.value(payload)) == payload
    assert keys.payload(None) is None
    assert keys.payload(keys.lease(payload)) is None


def timeline_of(post_ids: Sequence[int], horizon: int = 3, cut: int = 2) -> bytes:
    """A timeline as it is in Redis; the author of a post is the post id less one."""
    entries = keys.encode_entries([(post_id, post_id - 1) for post_id in post_ids])
    return entries + keys.encode_trailer(keys.Trailer(horizon, cut, b"\x00epoch\xff\x00"))


@given(DISTINCT_IDS, IDS | st.just(0), IDS | st.just(0), st.data())
def test_the_newest_entries_of_a_timeline_survive(
    post_ids: list[int], horizon: int, cut: int, data: st.DataObject
) -> None:
    raw = timeline_of(post_ids, horizon, cut)
    newest = data.draw(st.integers(0, len(post_ids) + 5))
    tail = keys.decode_timeline(raw[keys.newest(newest) :])
    assert tail is not None
    assert tail.trailer == (horizon, cut, b"\x00epoch\xff\x00")
    expected = tuple(post_ids[len(post_ids) - min(newest, len(post_ids)) :])
    assert tail.length == len(expected)
    assert tail.columns(0, tail.length) == (expected, tuple(post_id - 1 for post_id in expected))
    start = data.draw(st.integers(0, tail.length))
    assert tail.columns(start, tail.length)[0] == expected[start:]


@given(DISTINCT_IDS, IDS)
def test_the_place_of_a_post_is_the_number_of_entries_below_it(post_ids: list[int], post_id: int) -> None:
    tail = keys.decode_timeline(timeline_of(post_ids))
    assert tail is not None
    for wanted in (post_id, *post_ids):
        assert tail.place(wanted) == sum(other < wanted for other in post_ids)


def test_an_absent_timeline_is_none_and_one_without_entries_is_not() -> None:
    assert keys.decode_timeline(b"") is None
    tail = keys.decode_timeline(timeline_of([]))
    assert tail is not None
    assert (tail.length, tail.columns(0, 0), tail.place(5)) == (0, ((), ()), 0)


ONE_FAVOURITE = keys.encode_context(keys.Context([7], [7]))


@pytest.mark.parametrize(
    "packed",
    [b"", b"\0", b"\0\0\0\5", b"\xff\xff\xff\xff12345678", bytes(5), ONE_FAVOURITE[:-1]],
)
def test_what_is_no_context_is_undecodable(packed: bytes) -> None:
    with pytest.raises(keys.Undecodable):
        keys.decode_context(packed)


ONE_BLOCKED = keys.encode_hidden(keys.HiddenAuthors([7], (), more_block=False))


@pytest.mark.parametrize(
    "packed",
    [b"", b"\0", bytes(4), bytes(6), ONE_BLOCKED[:5], ONE_BLOCKED[:-1], ONE_BLOCKED + b"\0", b"\0" + b"\xff" * 12],
)
def test_what_hides_nobody_and_shows_nobody_is_undecodable(packed: bytes) -> None:
    with pytest.raises(keys.Undecodable):
        keys.decode_hidden(packed)


@pytest.mark.parametrize("packed", [b"", b"\0", bytes(12)])
def test_what_is_no_list_of_posts_is_undecodable(packed: bytes) -> None:
    with pytest.raises(keys.Undecodable):
        keys.decode_post_list(packed)


@pytest.mark.parametrize("raw", [b"short", bytes(keys.TRAILER_BYTES + 1)])
def test_what_is_no_timeline_is_as_good_as_none(raw: bytes) -> None:
    assert keys.decode_timeline(raw) is None
