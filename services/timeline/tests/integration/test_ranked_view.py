"""The ranked view of the running process over real Redis: what it costs, what it is told, and what it does without."""

from pathlib import Path

import pytest
from devmesh.backends.valkey import Valkey
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2
from feedkit import feature_keys, key_scripts, keys
from feedkit.config import ConfigurationError
from feedkit.cursor import Position
from feedkit.errors import InvalidArgument
from feedkit.feature_keys import Sums
from feedrank.signals import PREDICTED

from .neighbours import Neighbours
from .running import ANN, STAR, VIEWER, Timeline, started, until

pytestmark = pytest.mark.integration

RANKED, LATEST = timeline_pb2.VIEW_RANKED, timeline_pb2.VIEW_LATEST
LIFE_MS = 600_000


def ids(page: timeline_pb2.GetHomeTimelineResponse) -> list[int]:
    """The posts of a page."""
    return [shown.post.id for shown in page.posts]


async def ranked_walk(timeline: Timeline, size: int) -> list[timeline_pb2.GetHomeTimelineResponse]:
    """All pages of a ranked walk."""
    pages = [await timeline.page(page_size=size, view=RANKED)]
    while token := pages[-1].next_page_token:
        pages.append(await timeline.page(token, size, view=RANKED))
    return pages


async def warm(timeline: Timeline) -> None:
    """Let everything be in Redis that a ranked read needs."""
    await timeline.warm()
    await timeline.page(view=RANKED)
    (first, *_) = timeline.truth.timeline_of(VIEWER)
    await until(lambda: _has_traits(timeline, first))
    timeline.forget()


async def _has_traits(timeline: Timeline, post: int) -> bool:
    (value,) = await timeline.direct.run(("EXISTS", feature_keys.post_signals(post)))
    return bool(value)


async def test_a_warm_first_page_is_three_round_trips_and_calls_hydrate_alone(timeline: Timeline) -> None:
    await warm(timeline)
    page = await timeline.page(view=RANKED)
    assert (page.view, page.notice, len(page.posts)) == (RANKED, timeline_pb2.NOTICE_UNSPECIFIED, 20)
    assert (timeline.round_trips, timeline.truth.calls) == (3, {"HydratePosts": 1})


async def test_a_warm_later_page_is_one_round_trip_and_calls_hydrate_alone(timeline: Timeline) -> None:
    await warm(timeline)
    token = (await timeline.page(view=RANKED)).next_page_token
    timeline.forget()
    assert len((await timeline.page(token)).posts) == 20
    assert (timeline.round_trips, timeline.truth.calls) == (1, {"HydratePosts": 1})


@pytest.mark.parametrize("candidates", [30, 400])
async def test_a_walk_shows_everything_once(valkey: Valkey, truth: Neighbours, candidates: int) -> None:
    async with started(valkey, truth, candidates=candidates) as timeline:
        await timeline.warm()
        pages = await ranked_walk(timeline, 7)
        assert sorted((post for page in pages for post in ids(page)), reverse=True) == truth.timeline_of(VIEWER)
        assert {page.view for page in pages} == ({RANKED} if candidates == 400 else {RANKED, LATEST})


async def test_traits_are_asked_for_once_and_kept(timeline: Timeline) -> None:
    await timeline.warm()
    newest = timeline.truth.timeline_of(VIEWER)[0]
    timeline.truth.traits = {newest: post_pb2.PostTraits(post_id=newest, has_media=True, topics=[7])}
    await timeline.page(view=RANKED)
    await until(lambda: _has_traits(timeline, newest))
    timeline.forget()
    page = await timeline.page(view=RANKED)
    assert timeline.truth.calls["BatchGetTraits"] == 0
    (raw,) = await timeline.direct.run(key_scripts.get(feature_keys.post_signals(newest)))
    flags = feature_keys.TRAITS_KNOWN | feature_keys.HAS_MEDIA
    assert (len(page.posts), raw[:8]) == (20, flags.to_bytes(4) + (7).to_bytes(4))


async def test_where_traits_are_not_told_the_read_goes_on(timeline: Timeline) -> None:
    await timeline.warm()
    timeline.truth.away = {"BatchGetTraits"}
    page = await timeline.page(view=RANKED)
    assert (page.view, len(page.posts)) == (RANKED, 20)


async def test_what_the_viewer_cares_for_comes_first_and_tells_why(timeline: Timeline) -> None:
    await warm(timeline)
    oldest_of_ann = min(post for post, author in timeline.truth.posts.items() if author == ANN)
    await timeline.direct.run(
        feature_keys.observe_post(oldest_of_ann, 0.0, Sums(impressions=1000, likes=900), LIFE_MS),
        feature_keys.observe_affinity(VIEWER, 2e9, {ANN: 50.0}, 100, LIFE_MS),
    )
    page = await timeline.page(page_size=50, view=RANKED, explain=True)
    assert ids(page)[0] == oldest_of_ann
    why = page.explanations[0]
    assert (why.source, why.place) == (timeline_pb2.ENTRY_SOURCE_PUSHED, 0)
    assert {"affinity", "likes"} <= {factor.feature for factor in why.factors}
    assert [prediction.signal for prediction in why.predictions] == list(PREDICTED)
    later = await timeline.page(page.next_page_token, 50, explain=True)
    told = zip(ids(page) + ids(later), [*page.explanations, *later.explanations], strict=True)
    sources = {timeline.truth.posts[post]: why.source for post, why in told}
    assert sources[STAR] == timeline_pb2.ENTRY_SOURCE_PULLED
    assert sources[VIEWER] == timeline_pb2.ENTRY_SOURCE_OWN


async def test_who_chose_the_ranked_view_is_shown_it(timeline: Timeline) -> None:
    await timeline.warm()
    timeline.truth.prefers_ranked = True
    await timeline.direct.run(key_scripts.forget(keys.context(VIEWER)))
    first = await timeline.page()
    second = await timeline.page(first.next_page_token)
    assert (first.view, second.view) == (RANKED, RANKED)
    assert (await timeline.page(view=LATEST)).view == LATEST


async def test_who_was_unfollowed_is_gone_from_the_next_page_of_an_order(timeline: Timeline) -> None:
    await warm(timeline)
    first = await timeline.page(page_size=5, view=RANKED)
    timeline.truth.follows[VIEWER].discard(ANN)
    await timeline.direct.run(key_scripts.forget(keys.context(VIEWER)))
    later = await timeline.page(first.next_page_token, 50)
    assert ANN not in {timeline.truth.posts[post] for post in ids(later)}


async def test_an_order_that_was_lost_begins_anew_and_says_so(timeline: Timeline) -> None:
    await warm(timeline)
    first = await timeline.page(view=RANKED)
    await timeline.direct.run(("DEL", feature_keys.orders(VIEWER)))
    again = await timeline.page(first.next_page_token)
    assert (again.view, again.notice) == (RANKED, timeline_pb2.NOTICE_ORDER_EXPIRED)
    assert ids(again) == ids(first)


FOREIGN = {
    "affinity": feature_keys.affinity(VIEWER),
    "seen": feature_keys.seen(VIEWER),
}


@pytest.mark.parametrize("key", FOREIGN)
async def test_a_key_of_another_type_costs_the_ranking_and_not_the_answer(timeline: Timeline, key: str) -> None:
    await timeline.warm()
    await timeline.direct.run(("DEL", FOREIGN[key]), ("HSET", FOREIGN[key], "field", "value"))
    page = await timeline.page(view=RANKED)
    newest = timeline.truth.timeline_of(VIEWER)
    assert (page.view, page.notice, ids(page)) == (LATEST, timeline_pb2.NOTICE_RANKING_UNAVAILABLE, newest[:20])
    assert page.next_page_token == f"r:below:{Position.of(newest[19])}"
    assert ids(await timeline.page(page.next_page_token, view=RANKED)) == newest[20:40]


async def test_a_token_of_the_other_view_is_refused(timeline: Timeline) -> None:
    for view, other in ((LATEST, RANKED), (RANKED, LATEST)):
        token = (await timeline.page(page_size=5, view=other)).next_page_token
        with pytest.raises(InvalidArgument) as refused:
            await timeline.page(token, view=view)
        assert refused.value.reason == "INVALID_PAGE_TOKEN"


async def test_the_house_speaks_as_it_is_told_to(valkey: Valkey, truth: Neighbours) -> None:
    async with started(valkey, truth, announcement_text="We move", announcement_slot=2) as timeline:
        page = await timeline.page(view=RANKED)
    assert list(page.insertions) == [
        timeline_pb2.Insertion(before_index=2, kind="announcement", label="Announcement", text="We move")
    ]


async def test_it_tells_how_it_ranks(valkey: Valkey, truth: Neighbours) -> None:
    async with started(valkey, truth, rank_weight_like=2.5, candidates=100) as timeline:
        ranking = await timeline.ranking()
    assert ranking.model.startswith("baseline")
    assert (ranking.trained_at_ms, ranking.candidates) == (0, 100)
    assert dict(ranking.weights) == {"like": 2.5, "reply": 3.0, "repost": 2.0, "dwell": 0.3, "negative": -10.0}
    assert {"author-diversity", "freshness", "hidden"} <= set(ranking.rules)


async def test_a_model_that_cannot_be_loaded_stops_the_start_and_is_named(
    valkey: Valkey, truth: Neighbours, tmp_path: Path
) -> None:
    (junk := tmp_path / "model.json").write_text("junk")
    for path in (junk, tmp_path / "none.json"):
        with pytest.raises(ConfigurationError, match="FEED_RANK_MODEL: ") as refused:
            async with started(valkey, truth, rank_model=str(path)):
                pass
        assert str(path.name) in str(refused.value)
