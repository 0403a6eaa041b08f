"""Page tokens of lists of users."""

import pytest
from feedkit.cursor import MAX_ID
from feedkit.errors import InvalidArgument
from graph_service.user_lists import Side, read_token, write_token
from hypothesis import given
from hypothesis import strategies as st

SIDES = st.sampled_from(Side)
POSITIONS = st.integers(1, MAX_ID)


@given(SIDES, POSITIONS)
def test_a_token_is_read_as_it_was_written(side: Side, position: int):
    assert read_token(side, write_token(side, position)) == position


@given(SIDES, POSITIONS)
def test_a_token_fits_the_contract(side: Side, position: int):
    assert len(write_token(side, position)) <= 64


@pytest.mark.parametrize("side", Side)
def test_the_empty_token_is_the_top(side: Side):
    assert read_token(side, "") == MAX_ID


@given(st.permutations(list(Side)), POSITIONS)
def test_a_token_of_one_list_is_none_of_another(sides: list[Side], position: int):
    with pytest.raises(InvalidArgument):
        read_token(sides[0], write_token(sides[1], position))


@pytest.mark.parametrize(
    "junk",
    ["...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "0", "1", " " * 12, "é" * 12, "A" * 13, "A" * 12, "_" * 12],
)
def test_junk_is_refused_naming_the_field(junk: str):
    with pytest.raises(InvalidArgument) as caught:
        read_token(Side.FOLLOWERS, junk)
    assert (caught.value.reason, caught.value.violations[0].field) == ("INVALID_PAGE_TOKEN", "page_token")


@pytest.mark.parametrize(
    "token", ["AQAAAAAAAAAA", "AQAAAAAAAAAB\n", "AQ\0AAAAAAAAB", "AQAAAAAAAAA=", "Af________//", " AQAAAAAAAAAB"]
)
def test_what_is_almost_a_token_is_refused(token: str):
    with pytest.raises(InvalidArgument):
        read_token(Side.FOLLOWERS, token)


@given(st.text(max_size=64))
def test_whatever_is_accepted_has_one_spelling(token: str):
    try:
        position = read_token(Side.FOLLOWERS, token)
    except InvalidArgument:
        return
    assert token in {"", write_token(Side.FOLLOWERS, position)}
