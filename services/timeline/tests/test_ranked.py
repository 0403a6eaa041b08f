"""The ranked view: an order of the newest posts, walked through without repeat or skip, and LATEST below it."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from feedkit.cursor import Position
from feedkit.errors import InvalidArgument, Unavailable
from feedrank.baseline import Baseline
from feedrank.signals import PREDICTED
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from timeline_service.origins import Origin
from timeline_service.pages import Notice, TimelinePage, View
from timeline_service.ranker import Obstacle
from timeline_service.ranking.insertions import Announcement
from timeline_service.ranking.rules import Rules

from .histories import VIEWER, error_of, posts, unhurried
from .ranked_world import WEIGHTS, RankedReader, Recipe
from .test_homes import worlds
from .world import FOLLOWEES, World

MOST_PAGES = 300
briefly = settings(unhurried, max_examples=50)


def feed(count: int, **settings: Any) -> World:
    """A world in which all followees and the viewer write by turns, whose cache has everything; author 5 is pulled."""
    authors = (*FOLLOWEES, VIEWER.id)
    world = World({post: authors[post % len(authors)] for post in range(1, count + 1)}, **settings)
    world.pulled = frozenset({5})
    world.warm()
    return world


async def walk(reader: RankedReader, size: int, between: Callable[[], None] = lambda: None) -> list[TimelinePage[int]]:
    """Every page of a ranked walk; failing requests are made again."""
    pages: list[TimelinePage[int]] = []
    token = ""
    for _ in range(MOST_PAGES):
        try:
            page = await reader.page(token, size)
        except Unavailable:
            continue
        assert len(page.posts) <= size
        pages.append(page)
        if not (token := page.next_token):
            return pages
        between()
    pytest.fail(f"no end after {MOST_PAGES} requests")


def shown(pages: Sequence[TimelinePage[int]]) -> list[int]:
    """All posts of some pages."""
    return [post for page in pages for post in page.posts]


# --- walks -----------------------------------------------------------------------------------------------------------

sizes = st.integers(1, 12)
some_candidates = st.integers(1, 60)
likes = st.dictionaries(st.integers(1, 120), st.integers(1, 100))


@unhurried
@given(worlds(), sizes, some_candidates, likes)
async def test_a_walk_shows_exactly_the_timeline_the_newest_posts_ranked_and_below_them_latest(
    world: World, size: int, candidates: int, liked: dict[int, int]
) -> None:
    reader = RankedReader(world, Recipe(candidates=candidates))
    reader.signals.likes = liked
    pages = await walk(reader, size)
    everything = shown(pages)
    ranked = shown([page for page in pages if page.view is View.RANKED])
    assert sorted(everything, reverse=True) == world.expected, "nothing lost, nothing twice, nothing extra"
    assert everything[len(ranked) :] == [post for post in world.expected if post not in set(ranked)]
    assert sorted(ranked, reverse=True) == world.expected[: len(ranked)]
    assert [page.notice for page in pages] == [None] * len(pages)
    assert all(page.posts for page in pages[:-1]), "only the end may be empty"


@briefly
@given(worlds(), sizes, some_candidates)
async def test_where_all_weights_are_0_a_walk_is_that_of_latest(world: World, size: int, candidates: int) -> None:
    reader = RankedReader(world, Recipe(candidates=candidates, weights=(0.0,) * len(PREDICTED)))
    reader.signals.likes = {post: post % 7 for post in world.posts}
    reader.signals.hidden = set(world.posts)
    assert shown(await walk(reader, size)) == world.expected


class Mischief:
    """What happens between the pages of a walk. What was there all the time has to be shown, and all else may be."""

    def __init__(self, data: st.DataObject, reader: RankedReader) -> None:
        self._data = data
        self._reader = reader
        self._newest = iter(range(1000, 10_000))
        self.evictions = 0

    def __call__(self) -> None:
        world, draw = self._reader.world, self._data.draw
        match draw(st.sampled_from(["write", "delete", "unfollow", "suspend", "lose context", "evict", "nothing"])):
            case "write":
                world.posts[next(self._newest)] = draw(st.sampled_from(FOLLOWEES))
            case "delete" if world.posts:
                post = draw(st.sampled_from(sorted(world.posts)))
                world.deleted[post] = world.posts.pop(post)
                self._reader.hydration.withheld.add(post)
            case "unfollow" if world.followees:
                world.followees = sorted({*world.followees} - {draw(st.sampled_from(world.followees))})
                world.context = None
            case "suspend":
                author = draw(st.sampled_from(FOLLOWEES))
                world.suspended.add(author)
                self._reader.hydration.withheld_authors.add(author)
            case "lose context":
                world.context = None
            case "evict":
                self.evictions += bool(self._reader.orders.kept)
                self._reader.orders.kept.clear()
            case _:
                pass


@briefly
@given(st.data(), worlds(), sizes, some_candidates, likes, st.dictionaries(st.integers(1, 120), st.integers(1, 2)))
async def test_whatever_happens_during_a_walk_nothing_is_repeated_and_nothing_is_skipped_that_stays(  # noqa: PLR0917
    data: st.DataObject,
    world: World,
    size: int,
    candidates: int,
    liked: dict[int, int],
    unavailable: dict[int, int],
) -> None:
    reader = RankedReader(world, Recipe(candidates=candidates, rounds=data.draw(st.sampled_from([1, 2, 8]))))
    reader.signals.likes = liked
    reader.hydration.unavailable = dict(unavailable)
    at_first = set(world.expected)
    pages = await walk(reader, size, mischief := Mischief(data, reader))
    begins = [place for place, page in enumerate(pages) if page.notice is Notice.ORDER_EXPIRED]
    assert len(begins) == reader.tally.expired <= mischief.evictions
    for first, after in pairwise([0, *begins, len(pages)]):
        assert len(set(part := shown(pages[first:after]))) == len(part), "a repeat though the order did not begin anew"
    last_walk = shown(pages[begins[-1] if begins else 0 :])
    assert set(last_walk) >= at_first & set(world.expected), "a post was skipped that was there all the time"


async def test_a_post_that_arrives_during_a_walk_waits_for_the_next_one() -> None:
    world = feed(60)
    reader = RankedReader(world)
    first = await reader.page(size=10)
    world.posts[1000] = FOLLOWEES[0]
    world.materialise()
    rest = await reader.page(first.next_token, 50)
    assert 1000 not in rest.posts
    assert 1000 in shown(await walk(reader, 50))


async def test_who_was_unfollowed_is_gone_from_the_next_page_of_a_kept_order() -> None:
    world = feed(60)
    reader = RankedReader(world)
    first = await reader.page(size=10)
    world.followees.remove(1)
    world.context = None
    rest = await reader.page(first.next_token, 50)
    assert set(rest.posts) == {post for post, author in world.posts.items() if author != 1} - set(first.posts)


# --- orders ----------------------------------------------------------------------------------------------------------


async def test_what_is_liked_by_many_comes_before_what_is_newer() -> None:
    reader = RankedReader(feed(60))
    reader.signals.likes = {3: 100_000}
    assert (await reader.page(size=1)).posts == [3]


async def test_a_hidden_post_goes_last_of_the_ranked_ones_and_stays_where_it_is_in_latest() -> None:
    world = feed(60)
    reader = RankedReader(world, Recipe(candidates=30))
    reader.signals.hidden = {60}
    assert shown(await walk(reader, 10))[29] == 60
    assert (await reader.page(view=View.LATEST)).posts[0] == 60


async def test_a_later_page_costs_one_round_trip_and_asks_for_no_features() -> None:
    world = feed(60)
    reader = RankedReader(world)
    token = (await reader.page(size=10)).next_token
    world.calls.clear()
    assert (await reader.page(token, 10)).view is View.RANKED
    assert world.calls == ["orders find"]


async def test_a_first_page_costs_one_round_trip_for_the_home_one_for_features_and_one_for_the_order() -> None:
    world = feed(60)
    reader = RankedReader(world)
    await reader.page(size=10)
    world.calls.clear()
    await reader.page(size=10)
    assert world.calls == ["redis glance", "features read", "orders keep"]


@pytest.mark.parametrize(("horizon", "wished"), [(100, []), (180, [VIEWER.id])], ids=["long enough", "short"])
async def test_a_timeline_is_wished_for_where_it_is_short_for_a_page_and_not_for_candidates(
    horizon: int, wished: list[int]
) -> None:
    world = feed(200)
    world.warm(horizon)
    assert len((await RankedReader(world).page(size=50)).posts) == 50
    assert world.wished == wished


async def test_an_order_that_is_gone_begins_anew_and_says_so() -> None:
    reader = RankedReader(feed(60))
    first = await reader.page(size=10)
    reader.orders.kept.clear()
    again = await reader.page(first.next_token, 10)
    assert (again.posts, again.view, again.notice) == (first.posts, View.RANKED, Notice.ORDER_EXPIRED)
    assert (await reader.page(again.next_token, 10)).notice is None
    assert reader.tally.expired == 1


async def test_an_order_that_was_damaged_is_as_good_as_gone() -> None:
    reader = RankedReader(feed(60))
    first = await reader.page(size=10)
    reader.orders.kept = {snapshot: packed[:-1] for snapshot, packed in reader.orders.kept.items()}
    assert (await reader.page(first.next_token, 10)).notice is Notice.ORDER_EXPIRED


async def test_a_timeline_without_posts_is_a_ranked_page_that_is_the_end() -> None:
    assert await RankedReader(feed(0)).page() == TimelinePage([], "", View.RANKED)


async def test_below_the_lowest_candidate_the_walk_goes_on_with_latest() -> None:
    world = feed(60)
    reader = RankedReader(world, Recipe(candidates=30))
    ranked = await reader.page(size=30)
    assert (ranked.view, sorted(ranked.posts)) == (View.RANKED, list(range(31, 61)))
    assert ranked.next_token == f"r:below:{Position.of(31)}"
    tail = await reader.page(ranked.next_token, 20)
    assert (tail.posts, tail.view, tail.notice) == (list(range(30, 10, -1)), View.LATEST, None)
    assert tail.next_token == f"r:below:{Position.of(11)}"


async def test_an_order_of_which_nothing_is_left_to_show_goes_over_into_latest_at_once() -> None:
    world = feed(60)
    reader = RankedReader(world, Recipe(candidates=30))
    first = await reader.page(size=20)
    reader.hydration.withheld |= set(range(31, 61))
    assert (await reader.page(first.next_token, 20)).posts == list(range(30, 10, -1))


async def test_where_a_source_fails_what_is_certain_is_ranked_and_the_rest_comes_below_it() -> None:
    world = feed(60)
    world.warm(horizon=40)
    world.away = {"post"}
    reader = RankedReader(world)
    first = await reader.page(size=50)
    assert (sorted(first.posts), first.next_token) == (list(range(41, 61)), f"r:below:{Position.of(41)}")
    world.away.clear()
    assert (await reader.page(first.next_token, 50)).posts == list(range(40, 0, -1))


async def test_withheld_posts_are_replaced_by_those_that_follow() -> None:
    world = feed(60)
    reader = RankedReader(world)
    best = (await reader.page(size=20)).posts
    reader.hydration.withheld |= set(best[:5])
    assert (await reader.page(size=15)).posts == best[5:20]


async def test_of_an_author_who_is_withheld_altogether_nothing_more_is_looked_at() -> None:
    world = World(posts(*range(1, 101), author=1) | posts(*range(101, 121), author=2))
    world.warm()
    reader = RankedReader(world, Recipe(rules=Rules()))
    reader.signals.likes = dict.fromkeys(range(1, 101), 1000)
    reader.hydration.withheld_authors.add(1)
    assert len((await reader.page(size=20)).posts) == 20
    assert len(reader.hydration.calls) == 2


async def test_a_page_stops_before_the_first_post_that_is_unavailable() -> None:
    reader = RankedReader(feed(60))
    best = (await reader.page(size=20)).posts
    reader.hydration.unavailable = {best[3]: 1}
    page = await reader.page(size=20)
    assert page.posts == best[:3]
    assert (await reader.page(page.next_token, 17)).posts == best[3:]


async def test_where_hydration_fails_before_a_post_is_shown_the_read_fails_as_in_latest() -> None:
    reader = RankedReader(feed(60))
    reader.hydration.failures = iter([True])
    assert isinstance(await error_of(reader.page()), Unavailable)


# --- without ranking -------------------------------------------------------------------------------------------------


class Broken(Baseline):
    """A model that fails."""

    def predict(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `feedrank.models.Model`."""
        raise RuntimeError("broken")


class Nonsense(Baseline):
    """A model whose predictions are no numbers."""

    def predict(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """See `feedrank.models.Model`."""
        return np.full((len(matrix), len(PREDICTED)), np.nan, np.float32)


@pytest.mark.parametrize(
    ("away", "model", "obstacle"),
    [
        ("features", Baseline(), Obstacle.FEATURES),
        ("orders", Baseline(), Obstacle.ORDERS),
        ("redis", Baseline(), Obstacle.FEATURES),
        ("nobody", Broken(), Obstacle.MODEL),
        ("nobody", Nonsense(), Obstacle.MODEL),
    ],
)
async def test_where_nothing_can_be_ranked_the_walk_is_that_of_latest_and_says_so(
    away: str, model: Baseline, obstacle: Obstacle
) -> None:
    world = feed(60)
    world.away = {away}
    reader = RankedReader(world, Recipe(model=model))
    first = await reader.page(size=20)
    assert (first.posts, first.view, first.notice) == (world.expected[:20], View.LATEST, Notice.RANKING_UNAVAILABLE)
    assert first.next_token == f"r:below:{Position.of(first.posts[-1])}"
    assert shown(await walk(reader, 20)) == world.expected
    assert set(reader.tally.fallbacks) == {obstacle}


async def test_a_fault_in_what_is_known_costs_the_ranking_and_not_the_answer() -> None:
    world = feed(60)
    reader = RankedReader(world)
    await reader.page()

    def fault() -> None:
        raise ValueError("not understood")

    world.mischief = iter([lambda: None, fault])
    page = await reader.page(size=20)
    assert (page.posts, page.notice) == (world.expected[:20], Notice.RANKING_UNAVAILABLE)


async def test_while_the_cache_is_away_nobody_is_asked_for_candidates_that_could_not_be_ranked() -> None:
    world = feed(60)
    world.away = {"redis", "features", "orders"}
    await RankedReader(world).page()
    assert world.calls == ["graph context", "post pull 5"]


async def test_where_orders_are_away_a_later_page_begins_with_latest_and_says_so() -> None:
    world = feed(60)
    reader = RankedReader(world)
    first = await reader.page(size=20)
    world.away = {"orders"}
    page = await reader.page(first.next_token, 20)
    assert (page.posts, page.view, page.notice) == (world.expected[:20], View.LATEST, Notice.RANKING_UNAVAILABLE)


async def test_a_model_that_fails_is_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    reader = RankedReader(feed(60), Recipe(model=Broken()))
    for seconds in (0, 59, 1):
        reader.now += seconds
        await reader.page()
    assert [record.message for record in caplog.records] == ["ranking fails"] * 2


# --- which view ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefers_ranked", [False, True])
async def test_without_a_view_the_chosen_one_is_shown_and_then_that_of_the_token(prefers_ranked: bool) -> None:
    world = feed(60)
    world.prefers_ranked = prefers_ranked
    world.warm()
    reader = RankedReader(world)
    first = await reader.page(size=10, view=None)
    second = await reader.page(first.next_token, 10, view=None)
    expected = View.RANKED if prefers_ranked else View.LATEST
    assert (first.view, second.view) == (expected, expected)
    assert reader.tally.reads == [(expected, False)] * 2


async def test_the_chosen_view_asks_nobody_else() -> None:
    world = feed(60)
    world.prefers_ranked = True
    world.warm()
    reader = RankedReader(world)
    await reader.page(view=None)
    world.calls.clear()
    await reader.page(view=None)
    assert [call for call in world.calls if not call.startswith(("redis", "features", "orders"))] == []


@pytest.mark.parametrize("view", [View.LATEST, View.RANKED])
async def test_a_view_that_is_asked_for_is_shown_whatever_was_chosen(view: View) -> None:
    world = feed(60)
    world.prefers_ranked = view is View.LATEST
    world.warm()
    reader = RankedReader(world)
    assert (await reader.page(view=view)).view is view
    assert reader.tally.reads == [(view, True)]


async def test_a_token_of_the_other_view_is_refused() -> None:
    reader = RankedReader(feed(60))
    for view, other in ((View.LATEST, View.RANKED), (View.RANKED, View.LATEST)):
        token = (await reader.page(size=10, view=other)).next_token
        error = await error_of(reader.page(token, view=view))
        assert isinstance(error, InvalidArgument)
        assert error.reason == "INVALID_PAGE_TOKEN"


# --- explanations and insertions -------------------------------------------------------------------------------------


async def test_each_post_tells_why_it_is_there_on_the_first_page_and_on_later_ones() -> None:
    world = feed(60)
    reader = RankedReader(world)
    reader.signals.likes = {post: post * post % 97 for post in world.posts}
    first = await reader.page(size=20, explain=True)
    second = await reader.page(first.next_token, 20, explain=True)
    explained = [
        *zip(first.posts, first.explanations, strict=True),
        *zip(second.posts, second.explanations, strict=True),
    ]
    assert [why.place for _, why in explained] == list(range(40))
    assert len({why.scored_place for _, why in explained}) == 40
    for post, why in explained:
        author = world.posts[post]
        assert why.origin is (Origin.OWN if author == VIEWER.id else Origin.PULLED if author == 5 else Origin.PUSHED)
        assert [prediction.signal for prediction in why.reason.predictions] == list(PREDICTED)
        assert [prediction.weight for prediction in why.reason.predictions] == list(WEIGHTS)
        assert why.reason.score == pytest.approx(sum(p.probability * p.weight for p in why.reason.predictions))
        effects = [abs(factor.effect) for factor in why.reason.factors]
        assert 0 < len(effects) <= 5
        assert effects == sorted(effects, reverse=True)
        if why.moves:
            assert all(move.from_place != move.to_place for move in why.moves)
    assert any(why.moves for _, why in explained), "authors who write by turns are moved by some rule"
    assert not first.insertions


async def test_moves_are_the_same_on_whatever_page_they_are_told() -> None:
    reader = RankedReader(feed(60))
    at_once = (await reader.page(size=40, explain=True)).explanations
    token = (await reader.page(size=10)).next_token
    later = (await reader.page(token, 30, explain=True)).explanations
    assert [(why.place, why.scored_place, why.moves) for why in later] == [
        (why.place, why.scored_place, why.moves) for why in at_once[10:]
    ]
    assert [why.reason.score for why in later] == pytest.approx([why.reason.score for why in at_once[10:]])


async def test_where_features_are_away_a_later_page_still_tells_places_and_origins() -> None:
    world = feed(60)
    reader = RankedReader(world)
    first = await reader.page(size=10)
    world.away = {"features"}
    page = await reader.page(first.next_token, 10, explain=True)
    assert page.view is View.RANKED
    assert [(why.place, why.reason.predictions) for why in page.explanations] == [
        (place, ()) for place in range(10, 20)
    ]


async def test_without_rules_nothing_is_moved() -> None:
    page = await RankedReader(feed(60), Recipe(rules=Rules())).page(explain=True)
    assert [(why.place, why.scored_place, list(why.moves)) for why in page.explanations] == [
        (place, place, []) for place in range(20)
    ]


async def test_in_latest_a_post_tells_its_origin_and_its_place_on_the_page() -> None:
    world = feed(60)
    reader = RankedReader(world)
    token = (await reader.page(size=5, view=View.LATEST)).next_token
    page = await reader.page(token, 5, view=View.LATEST, explain=True)
    assert [(why.place, why.origin) for why in page.explanations] == [
        (
            place,
            Origin.OWN
            if world.posts[post] == VIEWER.id
            else Origin.PULLED
            if world.posts[post] == 5
            else Origin.PUSHED,
        )
        for place, post in enumerate(page.posts)
    ]


async def test_what_was_pulled_because_the_timeline_is_missing_says_so() -> None:
    world = feed(20)
    world.evict()
    page = await RankedReader(world).page(explain=True)
    assert {why.origin for why in page.explanations} == {Origin.PULLED, Origin.OWN}


async def test_what_lies_below_the_horizon_of_the_timeline_was_pulled() -> None:
    world = feed(60)
    world.warm(horizon=40)
    page = await RankedReader(world).page(size=50, explain=True)
    pushed = {post for post, why in zip(page.posts, page.explanations, strict=True) if why.origin is Origin.PUSHED}
    assert pushed == {post for post in page.posts if post > 40 and world.posts[post] not in {5, VIEWER.id}}


async def test_the_house_speaks_between_ranked_posts_only() -> None:
    announcement = Announcement(text="We are moving", label="Announcement", slot=3, every=20)
    reader = RankedReader(feed(60), Recipe(inserter=announcement))
    first = await reader.page(size=20)
    second = await reader.page(first.next_token, 20)
    assert [[said.before_index for said in page.insertions] for page in (first, second)] == [[3], [3]]
    assert not (await reader.page(view=View.LATEST)).insertions


async def test_posts_of_strangers_are_never_ranked() -> None:
    world = World(posts(*range(1, 20), author=9) | {100: 1})
    world.warm()
    assert (await RankedReader(world).page()).posts == [100]
