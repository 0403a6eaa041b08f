"""Kept orders and tokens: what is packed is what is unpacked, and what is not of this kind is nothing."""

import numpy as np
import pytest
from feedkit.cursor import MAX_ID, Position
from feedkit.errors import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.candidates import Shortlist
from timeline_service.orders import Below, InOrder, KeptOrder, parse
from timeline_service.ranking.arrangement import Move, Order, Step

ids = st.integers(1, MAX_ID)


@st.composite
def orders(draw: st.DrawFn) -> tuple[Shortlist, Order]:
    """Candidates, and any order of them with any moves."""
    post_ids = sorted(draw(st.sets(ids, max_size=30)), reverse=True)
    count = len(post_ids)
    places = st.permutations(range(count)).map(lambda order: np.array(order, np.intp))
    columns = st.lists(st.booleans(), min_size=count, max_size=count).map(lambda column: np.array(column, np.bool_))
    steps = [
        Step(
            draw(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=10)),
            draw(places),
            draw(places),
            draw(columns),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    candidates = Shortlist(
        np.array(post_ids, np.int64),
        np.array(draw(st.lists(ids, min_size=count, max_size=count)), np.int64),
        np.array(draw(st.lists(st.integers(1, 3), min_size=count, max_size=count)), np.uint8),
        draw(columns),
        draw(ids | st.none()),
    )
    return candidates, Order(rows=draw(places), scores=np.zeros(count), scored_places=draw(places), steps=steps)


@given(orders())
def test_an_order_comes_out_as_it_went_in(made: tuple[Shortlist, Order]) -> None:
    candidates, order = made
    kept = KeptOrder.unpack(KeptOrder.of(candidates, order).pack())
    assert kept is not None
    everything = range(len(candidates))
    rows = order.rows.tolist()
    again = kept.candidates_at(everything)
    assert (
        again.post_ids.tolist()
        == candidates.post_ids[rows].tolist()
        == [e.post_id for e in kept.entries_at(everything)]
    )
    assert again.author_ids.tolist() == candidates.author_ids[rows].tolist()
    assert again.origins.tolist() == candidates.origins[rows].tolist()
    assert again.are_pulled.tolist() == candidates.are_pulled[rows].tolist()
    assert kept.tail == candidates.tail
    assert [kept.scored_place(place) for place in everything] == order.scored_places[rows].tolist()
    assert [kept.moves(place) for place in everything] == [order.moves(row) for row in rows]


@given(orders(), st.data())
def test_what_was_cut_off_or_is_of_another_version_is_no_order(
    made: tuple[Shortlist, Order], data: st.DataObject
) -> None:
    packed = KeptOrder.of(*made).pack()
    assert KeptOrder.unpack(packed[: data.draw(st.integers(0, len(packed) - 1))]) is None
    assert KeptOrder.unpack(packed + b"x") is None
    assert KeptOrder.unpack(b"\2" + packed[1:]) is None


@given(st.binary(max_size=200), orders(), st.data())
def test_garbage_is_no_order_or_one_that_can_be_walked(
    garbage: bytes, made: tuple[Shortlist, Order], data: st.DataObject
) -> None:
    assert KeptOrder.unpack(garbage) is None or garbage.startswith(b"\1")
    packed = bytearray(KeptOrder.of(*made).pack())
    packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    if (order := KeptOrder.unpack(bytes(packed))) is not None:
        for place, entry in enumerate(order.entries_at(range(len(order)))):
            assert entry.post_id > 0 < entry.author_id
            assert all(isinstance(move, Move) for move in order.moves(place))


def test_an_order_of_400_takes_few_bytes() -> None:
    count, rows = 400, np.arange(400)
    post_ids = np.arange(count, 0, -1)
    candidates = Shortlist(post_ids, post_ids, np.ones(count, np.uint8), np.zeros(count, np.bool_), tail=1)
    kept = KeptOrder.of(candidates, Order(rows=rows, scores=np.zeros(count), scored_places=rows, steps=()))
    assert len(kept.pack()) < 8_000


@given(st.binary(min_size=8, max_size=8), st.integers(0, 99_999))
def test_a_place_in_an_order_is_what_its_token_says(snapshot: bytes, offset: int) -> None:
    token = InOrder(snapshot, offset)
    assert str(token) == f"r:{snapshot.hex()}:{offset}"
    assert parse(str(token)) == token


@given(ids)
def test_a_position_below_all_candidates_is_what_its_token_says(position: int) -> None:
    assert str(Below(position)) == f"r:below:{Position.of(position)}"
    assert parse(str(Below(position))) == Below(position)


@pytest.mark.parametrize(
    "token",
    [
        *(
            "r:",
            "r:below",
            "r:below:",
            "r:below:1",
            "r:below:1:2:3",
            "r:below:-1:1",
            "r:0123456789abcdef",
            "r:snapshot:0",
        ),
        *("r:0123456789abcdef:", "r:0123456789abcdef:-1", "r:0123456789abcdef:01", "r:0123456789abcdef:100000"),
        *(
            "r:0123456789ABCDEF:1",
            "r:0123456789abcde:1",
            "r:0123456789abcdef:1 ",
            "r:0123456789abcdef:1\n",
            "R:below:1:2",
        ),
    ],
)
def test_a_token_that_no_page_had_is_refused_and_named(token: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(token)
    assert refused.value.reason == "INVALID_PAGE_TOKEN"
    assert [violation.field for violation in refused.value.violations] == ["page_token"]
