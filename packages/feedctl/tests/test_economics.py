"""Whether pushing or pulling is cheaper, as docs/economics.md says."""

import math

import pytest
from click.testing import CliRunner
from feedctl.__main__ import main
from feedctl.economics import (
    Author,
    Setting,
    UnitCosts,
    break_even,
    from_words,
    in_words,
    pull_cost,
    push_cost,
)
from hypothesis import given
from hypothesis import strategies as st

COSTS = UnitCosts(delivery=30, follower=2, merge=1, list_read=50, fill=1000)
SETTING = Setting(timelines=2, staleness_seconds=2, cache_seconds=900)


def test_a_push_is_paid_for_each_active_follower_and_post() -> None:
    assert push_cost(Author(1000, 0.5, 10, 4), COSTS) == 4 * 500 * 32


def test_a_pull_is_paid_for_each_page_and_for_lists_as_often_as_they_are_read() -> None:
    small = Author(10, 0.5, 2, 4)
    assert pull_cost(small, COSTS, SETTING) == 10 * (1 + 50 + 1000), "every page finds nothing that another has read"
    large = Author(10_000_000, 0.5, 2, 4)
    assert pull_cost(large, COSTS, SETTING) == 10_000_000 * 1 + 2 * (43_200 + 4) * 50 + 96 * 1000


def test_whose_posts_are_seldom_read_is_pulled_however_few_follow() -> None:
    assert break_even(Author(5, 0.5, 0.01, 50), COSTS, SETTING) == 0
    assert break_even(Author(5, 0.5, 0, 1), COSTS, SETTING) == 0


def test_whose_posts_are_fewer_than_pages_are_cheap_is_pushed_however_many_follow() -> None:
    assert break_even(Author(5, 0.5, 100, 1), COSTS, SETTING) == math.inf
    assert break_even(Author(5, 0.5, 100, 0), COSTS, SETTING) == math.inf


def test_in_between_it_depends_on_the_followers() -> None:
    # 5 posts at 32 us are saved for each active follower, and 10 pages at 1 us paid, beside all the lists there can be.
    assert break_even(Author(1, 0.5, 10, 5), COSTS, SETTING) == pytest.approx(
        (2 * (43_200 + 5) * 50 + 96 * 1000) / (5 * 32 - 10) / 0.5
    )


costs = st.builds(UnitCosts, *[st.floats(0.1, 2000)] * 5)
settings = st.builds(Setting, st.integers(1, 50), st.floats(0.1, 60), st.floats(1, 86_400))


@given(st.floats(0.01, 1), st.floats(0.01, 1000), st.floats(0, 1000), costs, settings)
def test_below_the_break_even_pushing_is_no_dearer_and_above_it_pulling(
    active_share: float, reads: float, posts: float, unit: UnitCosts, setting: Setting
) -> None:
    even = break_even(Author(1, active_share, reads, posts), unit, setting)
    for followers in (1.0, 1e2, 1e4, 1e6, 1e9, 1e12, even * 0.99, even * 1.01):
        if 0 < followers < math.inf:
            author = Author(followers, active_share, reads, posts)
            push, pull = push_cost(author, unit), pull_cost(author, unit, setting)
            if followers < even:
                assert push <= pull * (1 + 1e-9)
            else:
                assert pull <= push * (1 + 1e-9)


def test_the_command_needs_no_mesh() -> None:
    options = (
        "--followers 100000 --active-share 0.5 --reads-per-day 10 --posts-per-day 5 --fill-us 1000 --list-read-us 50"
    )
    units = "--delivery-us 30 --follower-us 2 --merge-us 1"
    result = CliRunner().invoke(main, ["--state", "nowhere", "economics", *options.split(), *units.split()])
    assert result.exit_code == 0, result.output
    assert "8 s" in result.output, "50,000 active ones, 5 posts, 32 us"
    assert "cheaper: pull" in result.output
    assert "pulling is cheaper from 30,084 followers" in result.output.replace("\n", " ")


@pytest.mark.parametrize(
    "options", ["", "--followers 0", "--followers 5 --active-share 0", "--followers 5 --merge-us -1"]
)
def test_what_makes_no_sense_is_refused(options: str) -> None:
    assert CliRunner().invoke(main, ["economics", *options.split()]).exit_code == 2


@pytest.mark.parametrize(
    ("microseconds", "words"),
    [(0, "0 us"), (999, "999 us"), (1500, "1.5 ms"), (2.5e6, "2.5 s"), (9e7, "1.5 min"), (7.2e9, "2 h")],
)
def test_times_are_told_in_the_unit_that_suits_them(microseconds: float, words: str) -> None:
    assert in_words(microseconds) == words


def test_numbers_of_followers_in_words() -> None:
    assert from_words(0) == "from the first follower"
    assert from_words(math.inf) == "for no number of followers"
    assert from_words(1234.2) == "from 1,235 followers"
