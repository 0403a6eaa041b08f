"""What stands in the path, the query and the headers."""

import pytest
from feedkit.cursor import MAX_ID, Position
from feedkit.errors import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from gateway import parameters


def request(query: str = "", path_id: str = "", headers: tuple[tuple[bytes, bytes], ...] = ()) -> Request:
    return Request(
        {
            "type": "http",
            "method": "GET",
            "query_string": query.encode(),
            "path_params": {"id": path_id},
            "headers": list(headers),
        }
    )


def violated_field(error: pytest.ExceptionInfo[InvalidArgument]) -> list[str]:
    return [violation.field for violation in error.value.violations]


class TestLimit:
    @pytest.mark.parametrize(
        ("query", "limit"),
        [
            ("", 20),
            ("limit=", 20),
            ("limit=1", 1),
            ("limit=007", 7),
            ("limit=49", 49),
            ("limit=50", 50),
            ("limit=51", 50),
            ("limit=1000000", 50),
            (f"limit={'9' * 30}", 50),
            (f"limit={'9' * 9000}", 50),
        ],
    )
    def test_is_a_number_clamped_to_50(self, query: str, limit: int) -> None:
        assert parameters.limit(request(query)) == limit

    @pytest.mark.parametrize(
        "text",
        ["0", "000", "-1", "ten", "5.0", "%2B5", "+5", "%205", "5%20", "%D9%A5", "1e1", "0x5", "%FF", "5%00", "5%0A"],
    )
    def test_refuses_what_is_no_positive_number(self, text: str) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.limit(request(f"limit={text}"))
        assert violated_field(error) == ["limit"]

    def test_refuses_repetition(self) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.limit(request("limit=1&limit=2"))
        assert violated_field(error) == ["limit"]

    @given(st.integers(min_value=1))
    def test_gives_no_more_than_asked_and_no_more_than_50(self, asked: int) -> None:
        assert parameters.limit(request(f"limit={asked}")) == min(asked, 50)


class TestCursor:
    @pytest.mark.parametrize("query", ["", "cursor=", "other=1"])
    def test_absent_and_empty_are_the_top(self, query: str) -> None:
        assert parameters.cursor(request(query)) == ""

    @given(st.integers(0, MAX_ID), st.integers(0, MAX_ID))
    def test_is_passed_on_as_it_is(self, ms: int, post_id: int) -> None:
        token = str(Position(ms, post_id))
        assert parameters.cursor(request(f"cursor={token}")) == token

    @pytest.mark.parametrize(
        "text",
        ["...", "abc", ":", "1:", ":1", "1:2:3", "-1:-1", "1" * 10_000, "1:9223372036854775808", "1:%00", "%FF:1"],
    )
    def test_refuses_what_is_no_position(self, text: str) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.cursor(request(f"cursor={text}"))
        assert violated_field(error) == ["cursor"]


class TestIds:
    @pytest.mark.parametrize(
        ("query", "ids"),
        [("ids=1", [1]), ("ids=1,2", [1, 2]), ("ids=2%2C1,2", [2, 1, 2]), (f"ids={MAX_ID}", [MAX_ID])],
    )
    def test_are_comma_separated_and_kept_as_given(self, query: str, ids: list[int]) -> None:
        assert parameters.ids(request(query)) == ids

    def test_may_be_100(self) -> None:
        assert len(parameters.ids(request("ids=" + ",".join(map(str, range(1, 101)))))) == 100

    @pytest.mark.parametrize(
        "query",
        [
            "",
            "ids=",
            "ids=,",
            "ids=1,",
            "ids=1,,2",
            "ids=0",
            "ids=-1",
            "ids=01",
            "ids=1;2",
            "ids=1, 2",
            "ids=abc",
            f"ids={MAX_ID + 1}",
            "ids=" + "9" * 10_000,
            "ids=" + ",".join("1" * 101),
            "ids=1&ids=2",
            "ids=%FF",
        ],
    )
    def test_refuses_everything_else(self, query: str) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.ids(request(query))
        assert violated_field(error) == ["ids"]


class TestPathId:
    @given(st.integers(1, MAX_ID))
    def test_is_an_id(self, number: int) -> None:
        assert parameters.path_id(request(path_id=str(number))) == number

    @pytest.mark.parametrize("text", ["0", "-1", "+1", "01", "abc", "1.0", "1\n", "٣", str(MAX_ID + 1), "9" * 10_000])
    def test_refuses_what_can_be_no_id(self, text: str) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.path_id(request(path_id=text))
        assert violated_field(error) == ["id"]


class TestFeedCursor:
    @given(st.integers(0, MAX_ID), st.integers(0, MAX_ID))
    def test_may_be_a_position(self, ms: int, post_id: int) -> None:
        token = str(Position(ms, post_id))
        assert parameters.feed_cursor(request(f"cursor={token}")) == token

    @pytest.mark.parametrize("token", ["r:0123456789abcdef:20", "r:below:1:2", "r:", "r:x", "r:" + "x" * 62])
    def test_may_be_whatever_timeline_reads_as_one_of_a_ranked_feed(self, token: str) -> None:
        assert parameters.feed_cursor(request(f"cursor={token}")) == token

    @pytest.mark.parametrize("text", ["...", "1:2:3", "-1:-1", "R:1:2", " r:1:2", "r:" + "x" * 63, "r:" * 5_000])
    def test_refuses_what_is_neither(self, text: str) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.feed_cursor(request(f"cursor={text}"))
        assert (violated_field(error), error.value.reason) == (["cursor"], "INVALID_PAGE_TOKEN")


CHOICES = {"latest": 1, "ranked": 2}


class TestChoice:
    @pytest.mark.parametrize(
        ("query", "chosen"), [("", 0), ("view=", 0), ("view=latest", 1), ("view=ranked", 2), ("other=ranked", 0)]
    )
    def test_is_what_the_word_stands_for(self, query: str, chosen: int) -> None:
        assert parameters.choice(request(query), "view", CHOICES, 0) == chosen

    @pytest.mark.parametrize("query", ["view=best", "view=LATEST", "view=latest&view=latest", "view=%00", "view=1"])
    def test_may_be_no_other(self, query: str) -> None:
        with pytest.raises(InvalidArgument) as error:
            parameters.choice(request(query), "view", CHOICES, 0)
        assert violated_field(error) == ["view"]

    def test_tells_what_it_may_be(self) -> None:
        with pytest.raises(InvalidArgument, match=r"^view: must be latest or ranked$"):
            parameters.choice(request("view=best"), "view", CHOICES, 0)


def test_a_repeated_header_is_refused_by_its_name() -> None:
    twice = request(headers=((b"idempotency-key", b"a"), (b"idempotency-key", b"b")))
    with pytest.raises(InvalidArgument) as error:
        parameters.header(twice, "Idempotency-Key")
    assert violated_field(error) == ["Idempotency-Key"]
