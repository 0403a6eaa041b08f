"""What people do with posts is summed up, whatever comes in between, and forgets the counts that it has changed."""

from collections import Counter

import pytest
from fanout_service.config import FeatureSettings
from fanout_service.engagement_events import (
    NOT_COUNTED,
    Engagement,
    EngagementChange,
    EngagementEvent,
    EngagementEvents,
    Impressions,
    Observed,
    SeenPost,
    Tally,
    summed_up,
)
from fanout_service.feature_store import affinity, sums
from feedkit.feature_keys import Sums
from hypothesis import given
from hypothesis import strategies as st

VIC, WIM = 1, 2
ANN, BEA = 11, 12
POST, OTHER = 101, 102
AT = 1_800_000_000.0
TAKEN_BACK = {
    EngagementChange.LIKED: EngagementChange.UNLIKED,
    EngagementChange.REPOSTED: EngagementChange.UNREPOSTED,
    EngagementChange.REPLIED: EngagementChange.UNREPLIED,
}

USERS, POSTS = st.sampled_from([VIC, WIM, ANN]), st.sampled_from([POST, OTHER, 103])


def author_of(post_id: int) -> int:
    """Every post has one author, whoever tells of it."""
    return ANN if post_id == POST else BEA


def engagement(change: EngagementChange, viewer: int = VIC, post: int = POST, at: float = AT) -> Engagement:
    return Engagement(viewer, post, author_of(post), change, at)


def impressions(*posts: int, viewer: int = VIC, dwell: float = 1.0, at: float = AT) -> Impressions:
    return Impressions(viewer, [SeenPost(post, author_of(post), dwell, dwell >= 5) for post in posts], at)


def sights(viewer: int, posts: list[int], dwell: float) -> Impressions:
    return impressions(*posts, viewer=viewer, dwell=dwell)


EVENTS = st.lists(
    st.builds(engagement, st.sampled_from(EngagementChange), USERS, POSTS)
    | st.builds(sights, USERS, st.lists(POSTS, max_size=5), st.sampled_from([0.5, 6.0])),
    max_size=12,
)


class ModelFeatures:
    """Keeps what was observed."""

    def __init__(self) -> None:
        self.observed: list[Observed] = []

    async def observe(self, observed: Observed) -> None:
        """See `engagement_events.Features`."""
        self.observed.append(observed)


@pytest.mark.parametrize(("done", "undone"), TAKEN_BACK.items())
def test_what_is_taken_back_in_the_same_batch_comes_to_nothing_but_is_counted_anew(
    done: EngagementChange, undone: EngagementChange
) -> None:
    observed = summed_up([engagement(done), engagement(undone)])
    assert observed.posts == {POST: Tally()}
    assert observed.authors == {ANN: Tally()}
    assert observed.affinity == {VIC: {ANN: Tally()}}
    assert observed.recounted == {POST}
    assert affinity(Tally()) == 0
    assert sums(Tally()) == Sums()


@pytest.mark.parametrize("change", EngagementChange)
def test_only_what_is_shown_as_a_count_is_counted_anew(change: EngagementChange) -> None:
    assert summed_up([engagement(change)]).recounted == (set() if change in NOT_COUNTED else {POST})


def test_impressions_change_no_count() -> None:
    assert summed_up([impressions(POST, OTHER)]).recounted == set()


@pytest.mark.parametrize("event", [*map(engagement, EngagementChange), impressions(POST, dwell=9.0)])
def test_what_an_author_does_with_their_own_posts_is_no_affinity(event: EngagementEvent) -> None:
    own = event._replace(viewer_id=ANN) if isinstance(event, Impressions) else event._replace(actor_id=ANN)
    observed = summed_up([own])
    assert observed.affinity == {}
    assert observed.posts.keys() == {POST}


def test_a_post_is_seen_in_the_order_of_its_last_sight_and_stays_hidden() -> None:
    events = [impressions(POST, OTHER), engagement(EngagementChange.HIDDEN), impressions(103, POST)]
    assert list(summed_up(events).seen[VIC].items()) == [(OTHER, False), (103, False), (POST, True)]


def test_to_want_less_of_a_kind_does_not_hide_the_post() -> None:
    assert summed_up([engagement(EngagementChange.LESS_LIKE_THIS)]).seen == {}


def test_signals_take_what_people_have_against_a_post_together() -> None:
    tally = Tally(impressions=7, dwell_seconds=4.5, dwelt=1, likes=6, reposts=5, replies=4, less=2, hides=1)
    assert sums(tally) == Sums(7, 6, 5, 4, 4.5, 3)


def test_affinity_weighs_what_was_done() -> None:
    assert affinity(Tally(likes=1)) == 1
    rising = [
        Tally(hides=1),
        Tally(less=1),
        Tally(),
        Tally(dwelt=1),
        Tally(likes=1),
        Tally(reposts=1),
        Tally(replies=1),
    ]
    assert list(map(affinity, rising)) == sorted({affinity(tally) for tally in rising})
    assert affinity(Tally(impressions=9, dwell_seconds=9.0)) == 0, "to have passed by is neither"


@given(EVENTS)
def test_each_event_counts_once_for_its_post_its_author_and_its_viewer(events: list[EngagementEvent]) -> None:
    observed = summed_up(events)
    done = Counter(event.change for event in events if isinstance(event, Engagement))
    seen = [post for event in events if isinstance(event, Impressions) for post in event.posts]
    expected = Tally(
        impressions=len(seen),
        dwell_seconds=sum(post.dwell_seconds for post in seen),
        dwelt=sum(post.has_dwelt for post in seen),
        likes=done[EngagementChange.LIKED] - done[EngagementChange.UNLIKED],
        reposts=done[EngagementChange.REPOSTED] - done[EngagementChange.UNREPOSTED],
        replies=done[EngagementChange.REPLIED] - done[EngagementChange.UNREPLIED],
        less=done[EngagementChange.LESS_LIKE_THIS],
        hides=done[EngagementChange.HIDDEN],
    )
    for tallies in (observed.posts, observed.authors):
        for name in Tally.__slots__:
            assert sum(getattr(tally, name) for tally in tallies.values()) == getattr(expected, name)


@given(EVENTS, EVENTS)
def test_a_viewer_is_told_apart_from_others(ours: list[EngagementEvent], theirs: list[EngagementEvent]) -> None:
    ours = [event for event in ours if event[0] == VIC]
    theirs = [event for event in theirs if event[0] != VIC]
    alone, together = summed_up(ours), summed_up([*theirs, *ours])
    assert together.affinity.get(VIC) == alone.affinity.get(VIC)
    assert together.seen.get(VIC) == alone.seen.get(VIC)


async def test_a_batch_is_of_the_time_of_its_latest_event() -> None:
    features = ModelFeatures()
    late, later = engagement(EngagementChange.LIKED, at=AT - 9000), impressions(POST, at=AT - 5000)
    await EngagementEvents(features, lambda: AT).handle([later, late])
    assert features.observed[0].at == AT - 5000


async def test_nobody_is_believed_whose_clock_is_ahead() -> None:
    features = ModelFeatures()
    await EngagementEvents(features, lambda: AT).handle([engagement(EngagementChange.LIKED, at=AT + 9e9)])
    assert features.observed[0].at == AT


def test_the_defaults_remember_more_seen_posts_than_are_ranked() -> None:
    assert FeatureSettings().seen_length >= 400
