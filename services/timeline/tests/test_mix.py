"""Pages of a home timeline: full where they can be, never past what is not certain, ended exactly at the end."""

import math
from collections.abc import Collection
from itertools import pairwise

import pytest
from feedkit.cursor import EPOCH_MS, first_id_at
from feedkit.errors import Unavailable
from hypothesis import given
from hypothesis import strategies as st
from timeline_service.mix import Page
from timeline_service.source import TOP

from .histories import (
    FOLLOWED,
    STRANGER,
    VIEWER,
    Hydration,
    Listed,
    error_of,
    histories,
    mix_of,
    posts,
    unhurried,
    walk,
)


def flat(pages: list[list[int]]) -> list[int]:
    """All posts of a walk."""
    return [post for page in pages for post in page]


def timeline_of(
    history: dict[int, int], withheld: Collection[int], withheld_authors: Collection[int] = ()
) -> list[int]:
    """The oracle: what a walk must show."""
    authors = set(FOLLOWED).difference(withheld_authors)
    return sorted(
        (post for post, author in history.items() if author in authors and post not in withheld), reverse=True
    )


def written(count: int) -> dict[int, int]:
    """That many posts of one author, one a second, with ids as they really are."""
    return posts(*(first_id_at(EPOCH_MS + 1000 * (second + 1)) + second % 7 for second in range(count)))


sizes = st.integers(1, 12)
withheld_ids = st.sets(st.integers(1, 150), max_size=40)
some_authors = st.sets(st.sampled_from(FOLLOWED), max_size=2)

# --- every walk equals the oracle ------------------------------------------------------------------------------------


@unhurried
@given(histories(), withheld_ids, some_authors, sizes)
async def test_a_walk_shows_exactly_the_timeline(
    history: tuple[dict[int, int], list[Listed]], withheld: set[int], withheld_authors: set[int], size: int
) -> None:
    everything, sources = history
    hydration = Hydration(withheld, withheld_authors=withheld_authors)
    pages = await walk(mix_of(*sources, hydration=hydration), size)
    expected = timeline_of(everything, withheld, withheld_authors)
    assert flat(pages) == expected
    assert len(pages) <= math.ceil(len(expected) / size) + 1
    assert all(len(page) == size for page in pages[:-1]), "a page is short only at the end"


@unhurried
@given(histories(), sizes, st.integers(1, 150))
async def test_a_walk_may_begin_anywhere(history: tuple[dict[int, int], list[Listed]], size: int, start: int) -> None:
    everything, sources = history
    pages = await walk(mix_of(*sources), size, start=start)
    assert flat(pages) == [post for post in timeline_of(everything, set()) if post < start]


@unhurried
@given(histories(), withheld_ids, some_authors, sizes, st.integers(1, 2))
async def test_bounded_rounds_make_pages_short_and_lose_nothing(
    history: tuple[dict[int, int], list[Listed]],
    withheld: set[int],
    withheld_authors: set[int],
    size: int,
    rounds: int,
) -> None:
    everything, sources = history
    hydration = Hydration(withheld, withheld_authors=withheld_authors)
    pages = await walk(mix_of(*sources, hydration=hydration, rounds=rounds), size)
    assert flat(pages) == timeline_of(everything, withheld, withheld_authors)
    assert len(hydration.calls) <= rounds * len(pages)


flaws = st.lists(st.booleans(), max_size=12)


@unhurried
@given(
    history=histories(),
    withheld=withheld_ids,
    withheld_authors=some_authors,
    size=sizes,
    reads_failing=flaws,
    hydrations_failing=flaws,
    unavailable=st.dictionaries(st.integers(1, 150), st.integers(1, 2)),
)
async def test_a_walk_that_is_retried_through_failures_shows_exactly_the_timeline(
    *,
    history: tuple[dict[int, int], list[Listed]],
    withheld: set[int],
    withheld_authors: set[int],
    size: int,
    reads_failing: list[bool],
    hydrations_failing: list[bool],
    unavailable: dict[int, int],
) -> None:
    everything, sources = history
    sources = [Listed(source.posts, cap=4, failures=reads_failing) for source in sources]
    hydration = Hydration(withheld, dict(unavailable), hydrations_failing, withheld_authors=withheld_authors)
    failures = len(sources) * len(reads_failing) + len(hydrations_failing) + sum(unavailable.values())
    pages = await walk(mix_of(*sources, hydration=hydration), size, retries=failures)
    assert flat(pages) == timeline_of(everything, withheld, withheld_authors)


@unhurried
@given(
    histories(),
    sizes,
    st.lists(st.tuples(st.sets(st.integers(1, 150), max_size=8), st.integers(0, 5)), max_size=20),
)
async def test_posts_that_stay_are_shown_once_while_others_come_and_go(
    history: tuple[dict[int, int], list[Listed]], size: int, changes: list[tuple[set[int], int]]
) -> None:
    everything, sources = history
    hydration = Hydration()
    at_first, steps = timeline_of(everything, set()), iter(changes)
    newest = iter(range(1000, 10_000))

    def change() -> None:
        deleted, arrivals = next(steps, (set[int](), 0))
        # Sources forget some deleted posts at once, and leave the others to hydration.
        hydration.withheld |= deleted
        for source in sources:
            for post in deleted:
                if post % 2:
                    source.posts.pop(post, None)
        for source, post in zip(sources * arrivals, newest, strict=False):
            source.posts[post] = FOLLOWED[0]

    shown = flat(await walk(mix_of(*sources, hydration=hydration), size, between=change))
    assert all(newer > older for newer, older in pairwise(shown))
    assert set(shown) <= set(at_first), "an arrival on a later page"
    assert [post for post in shown if post not in hydration.withheld] == [
        post for post in at_first if post not in hydration.withheld
    ]


# --- work ------------------------------------------------------------------------------------------------------------


async def test_a_page_is_one_pull_and_one_hydration() -> None:
    source, hydration = Listed(written(100)), Hydration()
    page = await mix_of(source, hydration=hydration).page(VIEWER, TOP, 20)
    assert (len(page.posts), source.reads, len(hydration.calls)) == (20, [(TOP, 21)], 1)


async def test_only_what_the_page_shows_is_hydrated() -> None:
    hydration = Hydration()
    page = await mix_of(Listed(written(100)), hydration=hydration).page(VIEWER, TOP, 20)
    assert hydration.calls == [page.posts]


async def test_an_empty_timeline_hydrates_nothing() -> None:
    hydration = Hydration()
    assert await mix_of(Listed({}), hydration=hydration).page(VIEWER, TOP, 20) == Page([], None)
    assert hydration.calls == []


async def test_a_long_run_of_withheld_posts_takes_few_rounds() -> None:
    history = written(700)
    hydration = Hydration(withheld=sorted(history)[100:])
    page = await mix_of(Listed(history), hydration=hydration).page(VIEWER, TOP, 50)
    assert (page.posts, len(hydration.calls)) == (sorted(history, reverse=True)[600:650], 7)


# --- what is withheld, and what is not certain -----------------------------------------------------------------------


async def test_withheld_posts_are_replaced_by_those_that_follow() -> None:
    page = await mix_of(Listed(posts(5, 4, 3, 2, 1)), hydration=Hydration({4, 3})).page(VIEWER, TOP, 2)
    assert page == Page([5, 2], 2)


async def test_the_end_is_said_where_only_withheld_posts_are_left_that_were_looked_at() -> None:
    page = await mix_of(Listed(posts(5, 4, 3, 2, 1)), hydration=Hydration({5, 3, 2, 1})).page(VIEWER, TOP, 1)
    assert page.posts == [4]
    assert await walk(mix_of(Listed(posts(3, 2, 1)), hydration=Hydration({2, 1})), 2) == [[3]]


async def test_posts_of_strangers_are_not_shown() -> None:
    assert await walk(mix_of(Listed({3: FOLLOWED[1], 2: STRANGER, 1: VIEWER.id})), 2) == [[3, 1]]


@pytest.mark.parametrize("rounds", [2, 8])
async def test_an_author_who_is_withheld_altogether_is_left_out_however_much_they_wrote(rounds: int) -> None:
    gone, others = FOLLOWED[1], written(5000)
    history = {post: gone if place >= 100 else FOLLOWED[0] for place, post in enumerate(sorted(others))}
    source, hydration = Listed(history, cap=50), Hydration(withheld_authors=[gone])
    page = await mix_of(source, hydration=hydration, rounds=rounds).page(VIEWER, TOP, 20)
    assert page.posts == timeline_of(history, (), [gone])[:20]
    assert ([len(call) for call in hydration.calls], len(source.reads)) == ([20, 40], 2)


async def test_a_walk_through_thousands_that_are_withheld_is_made_of_full_pages() -> None:
    gone = FOLLOWED[1]
    history = {post: gone if place % 500 > 4 else FOLLOWED[0] for place, post in enumerate(sorted(written(5000)))}
    hydration = Hydration(withheld_authors=[gone])
    pages = await walk(mix_of(Listed(history), hydration=hydration), 20)
    assert flat(pages) == timeline_of(history, (), [gone])
    assert [len(page) for page in pages] == [20, 20, 10]


async def test_an_author_who_is_shown_again_is_shown_from_the_next_page_on() -> None:
    history = {9: 1, 8: 2, 7: 1, 6: 2, 5: 1, 4: 2}
    hydration = Hydration(withheld_authors=[2])
    mix = mix_of(Listed(history), hydration=hydration)
    first = await mix.page(VIEWER, TOP, 2)
    assert first.posts == [9, 7]
    hydration.withheld_authors.clear()
    assert first.next_position is not None
    assert (await mix.page(VIEWER, first.next_position, 5)).posts == [6, 5, 4]


async def test_a_page_whose_look_ahead_is_of_an_author_left_out_looks_further_ahead() -> None:
    hydration = Hydration(withheld_authors=[2])
    assert await mix_of(Listed({9: 2, 8: 1, 7: 2}), hydration=hydration).page(VIEWER, TOP, 2) == Page([8], None)
    assert await mix_of(Listed({9: 2, 8: 2, 7: 2}), hydration=hydration).page(VIEWER, TOP, 2) == Page([], None)


async def test_where_what_was_read_ahead_is_left_out_nothing_that_was_read_behind_it_is_lost() -> None:
    sources = Listed({9: 1, 7: 2, 5: 1}), Listed({8: 2, 6: 1})
    mix = mix_of(*sources, hydration=Hydration(withheld_authors=[2]), rounds=1)
    assert await mix.page(VIEWER, TOP, 2) == Page([9], 8)
    assert flat(await walk(mix, 2)) == [9, 6, 5]


async def test_what_is_not_known_of_an_author_left_out_holds_nobody_up() -> None:
    hydration = Hydration(withheld_authors=[2], unavailable={8: 1})
    assert await mix_of(Listed({9: 2, 8: 2, 7: 1}), hydration=hydration).page(VIEWER, TOP, 3) == Page([7], None)


async def test_when_rounds_run_out_the_page_is_short_and_says_where_to_go_on() -> None:
    mix = mix_of(Listed(posts(*range(1, 61))), hydration=Hydration(range(2, 61)), rounds=2)
    assert await mix.page(VIEWER, TOP, 3) == Page([], 18)


async def test_a_page_stops_before_the_first_post_that_is_unavailable() -> None:
    hydration = Hydration(unavailable={3: 1})
    page = await mix_of(Listed(posts(5, 4, 3, 2, 1)), hydration=hydration).page(VIEWER, TOP, 5)
    assert page == Page([5, 4], 4)


async def test_where_the_first_post_is_unavailable_there_is_no_page() -> None:
    hydration = Hydration(unavailable={5: 1})
    error = await error_of(mix_of(Listed(posts(5, 4)), hydration=hydration).page(VIEWER, TOP, 5))
    assert isinstance(error, Unavailable)
    assert error.metadata == {"dependency": "post"}


async def test_where_something_fails_before_a_post_can_be_shown_there_is_no_page() -> None:
    mix = mix_of(Listed(posts(5, 4, 3)), hydration=Hydration({5}, unavailable={4: 1}))
    error = await error_of(mix.page(VIEWER, TOP, 5))
    assert isinstance(error, Unavailable)
    assert await mix.page(VIEWER, TOP, 5) == Page([4, 3], None)


async def test_a_full_page_does_not_care_for_what_follows_it() -> None:
    mix = mix_of(Listed(posts(5, 4, 3, 2, 1)), hydration=Hydration({5}, unavailable={3: 1, 2: 1}))
    assert await mix.page(VIEWER, TOP, 1) == Page([4], 4)


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "hydration"),
    [(Listed(posts(2), failures=[True]), Hydration()), (Listed(posts(2)), Hydration(failures=[True]))],
    ids=["source", "hydration"],
)
async def test_where_nothing_is_certain_the_failure_is_raised(source: Listed, hydration: Hydration) -> None:
    error = await error_of(mix_of(source, hydration=hydration).page(VIEWER, TOP, 5))
    assert isinstance(error, Unavailable)


async def test_where_a_source_fails_the_page_ends_at_the_last_position_that_is_complete() -> None:
    source = Listed(posts(9, 8, 5, 4), stops=[7], failures=[False, True])
    assert await mix_of(source).page(VIEWER, TOP, 4) == Page([9, 8], 7)


async def test_where_hydration_fails_the_page_ends_at_what_was_hydrated() -> None:
    hydration = Hydration({8}, failures=[False, True])
    page = await mix_of(Listed(posts(9, 8, 7, 6)), hydration=hydration).page(VIEWER, TOP, 2)
    assert page == Page([9], 8)


# --- faults that people reported -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", ["the post of the cursor", "the whole first page"])
async def test_hand_06_a_cursor_is_a_position_whose_post_may_be_gone(gone: str) -> None:
    history = written(30)
    expected = sorted(history, reverse=True)
    mix = mix_of(Listed(history))
    first = await mix.page(VIEWER, TOP, 10)
    cursor = first.posts[-1]
    assert first.next_position == cursor
    for post in first.posts if gone == "the whole first page" else first.posts[-1:]:
        del history[post]
    assert flat(await walk(mix, 10, start=cursor)) == expected[10:]


async def test_hand_06_an_author_who_is_gone_leaves_the_cursor_valid() -> None:
    history = written(30)
    for post in sorted(history)[::3]:
        history[post] = FOLLOWED[1]
    mix, left = mix_of(Listed(history)), {post for post, author in history.items() if author != FOLLOWED[1]}
    first = await mix.page(VIEWER, TOP, 10)
    assert first.next_position is not None
    for post in set(history) - left:
        del history[post]
    expected = sorted((post for post in left if post < first.next_position), reverse=True)
    assert flat(await walk(mix, 10, start=first.next_position)) == expected


@pytest.mark.parametrize("forgotten", [True, False], ids=["gone from the source", "withheld by hydration"])
async def test_hand_08_a_feed_with_deleted_posts_does_not_stop_early(forgotten: bool) -> None:
    history = written(200)
    deleted = set(sorted(history)[::3])
    source = Listed({post: 1 for post in history if not (forgotten and post in deleted)})
    pages = await walk(mix_of(source, hydration=Hydration(deleted)), 30)
    assert flat(pages) == timeline_of(history, deleted)
    assert [len(page) for page in pages] == [30, 30, 30, 30, 13]


@pytest.mark.parametrize("size", [1, 10, 50])
@pytest.mark.parametrize("count", ["0", "1", "L-1", "L", "L+1", "2L"])
async def test_hand_09_a_feed_ends_exactly_at_its_end(size: int, count: str) -> None:
    length = {"0": 0, "1": 1, "L-1": size - 1, "L": size, "L+1": size + 1, "2L": 2 * size}[count]
    history = written(length)
    pages = await walk(mix_of(Listed(history)), size)
    assert flat(pages) == timeline_of(history, set())
    assert len(pages) == max(1, math.ceil(length / size)), "no request that only says that there is nothing"


async def test_hand_09_the_position_of_the_last_post_leads_to_an_empty_page_without_cursor() -> None:
    history = written(3)
    assert await walk(mix_of(Listed(history)), 10, start=min(history)) == [[]]


async def test_hand_10_pages_do_not_shift_while_posts_arrive_and_go() -> None:
    history = written(200)
    at_first = sorted(history, reverse=True)
    arrivals, deletions = iter(range(at_first[0] + 1, at_first[0] + 1000)), iter(at_first[::7])

    def change() -> None:
        history.update(posts(*(next(arrivals) for _ in range(20))))
        history.pop(next(deletions))

    shown = flat(await walk(mix_of(Listed(history)), 10, between=change))
    assert len(shown) == len(set(shown))
    assert set(shown) <= set(at_first)
    assert [post for post in shown if post in history] == [post for post in at_first if post in history]
