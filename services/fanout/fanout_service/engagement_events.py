"""What follows from what people did with posts: the features of the ranked view grow, and counts are read anew.

Features are approximations. What is handled again, after a crash or a failure, counts twice in them; in counts, which are
only forgotten here, nothing ever does.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias


class EngagementChange(Enum):
    """What somebody did with a post."""

    LIKED = "liked"
    UNLIKED = "unliked"
    REPOSTED = "reposted"
    UNREPOSTED = "unreposted"
    REPLIED = "replied"
    UNREPLIED = "unreplied"
    LESS_LIKE_THIS = "less like this"
    HIDDEN = "hidden"


class Engagement(NamedTuple):
    """Somebody did something with a post."""

    actor_id: int
    post_id: int
    author_id: int
    change: EngagementChange
    at: float
    """Unix seconds."""


class SeenPost(NamedTuple):
    """A post that somebody has seen."""

    post_id: int
    author_id: int
    dwell_seconds: float
    has_dwelt: bool
    """Whether that is so long that it tells of interest."""


class Impressions(NamedTuple):
    """Somebody has seen posts."""

    viewer_id: int
    posts: Sequence[SeenPost]
    at: float
    """Unix seconds."""


EngagementEvent: TypeAlias = Engagement | Impressions

NOT_COUNTED = {EngagementChange.LESS_LIKE_THIS, EngagementChange.HIDDEN}
"""What is not in the counts that are shown."""


@dataclass(slots=True)
class Tally:
    """How often something was done, less how often it was taken back."""

    impressions: int = 0
    dwell_seconds: float = 0.0
    dwelt: int = 0
    """Impressions on which somebody has dwelt."""
    likes: int = 0
    reposts: int = 0
    replies: int = 0
    less: int = 0
    hides: int = 0

    def do(self, change: EngagementChange) -> None:
        """Count an engagement."""
        name, step = _STEPS[change]
        setattr(self, name, getattr(self, name) + step)

    def see(self, seen: SeenPost) -> None:
        """Count an impression."""
        self.impressions += 1
        self.dwell_seconds += seen.dwell_seconds
        self.dwelt += seen.has_dwelt


_STEPS = {
    EngagementChange.LIKED: ("likes", 1),
    EngagementChange.UNLIKED: ("likes", -1),
    EngagementChange.REPOSTED: ("reposts", 1),
    EngagementChange.UNREPOSTED: ("reposts", -1),
    EngagementChange.REPLIED: ("replies", 1),
    EngagementChange.UNREPLIED: ("replies", -1),
    EngagementChange.LESS_LIKE_THIS: ("less", 1),
    EngagementChange.HIDDEN: ("hides", 1),
}


@dataclass(slots=True)
class Observed:
    """What some events amount to: each post, author and viewer once."""

    at: float = 0.0
    """When the latest of them happened, in Unix seconds."""
    posts: dict[int, Tally] = field(default_factory=dict[int, Tally])
    authors: dict[int, Tally] = field(default_factory=dict[int, Tally])
    """Of all their posts."""
    affinity: dict[int, dict[int, Tally]] = field(default_factory=dict[int, dict[int, Tally]])
    """Of each viewer to others, by these."""
    seen: dict[int, dict[int, bool]] = field(default_factory=dict[int, dict[int, bool]])
    """The posts that a viewer has seen, oldest sight first, and whether they are to be hidden."""
    recounted: set[int] = field(default_factory=set[int])
    """The posts whose counts have changed."""


class Features(Protocol):
    """What is known for the ranked view, and the counts that are shown."""

    async def observe(self, observed: Observed) -> None:
        """Forget counts, and add to the features; one round trip, or a few if it is much."""
        ...


class EngagementEvents:
    """Handles what people did with posts; see `post_events.PostEvents`."""

    def __init__(self, features: Features, clock: Callable[[], float]) -> None:
        """`clock` gives Unix seconds."""
        self._features = features
        self._clock = clock

    async def handle(self, events: Sequence[EngagementEvent]) -> None:
        """Return when everything that follows from them cannot be lost any more. Raises the first error."""
        observed = summed_up(events)
        # By the time of the events, so that what was long in coming is as old as it is; but nobody's clock is believed
        # that is ahead, since nothing fades before that time has come.
        observed.at = min(observed.at, self._clock())
        await self._features.observe(observed)


def summed_up(events: Iterable[EngagementEvent]) -> Observed:
    """What the events amount to together."""
    observed = Observed()
    for event in events:
        observed.at = max(observed.at, event.at)
        if isinstance(event, Engagement):
            _add_engagement(observed, event)
        else:
            _add_impressions(observed, event)
    return observed


def _add_engagement(observed: Observed, event: Engagement) -> None:
    for tally in _tallies(observed, event.actor_id, event.post_id, event.author_id):
        tally.do(event.change)
    if event.change not in NOT_COUNTED:
        observed.recounted.add(event.post_id)
    if event.change is EngagementChange.HIDDEN:
        _see(observed, event.actor_id, event.post_id, hidden=True)


def _add_impressions(observed: Observed, event: Impressions) -> None:
    for seen in event.posts:
        for tally in _tallies(observed, event.viewer_id, seen.post_id, seen.author_id):
            tally.see(seen)
        _see(observed, event.viewer_id, seen.post_id, hidden=False)


def _tallies(observed: Observed, viewer_id: int, post_id: int, author_id: int) -> list[Tally]:
    """All that something which a viewer does with a post counts in."""
    tallies = [observed.posts.setdefault(post_id, Tally()), observed.authors.setdefault(author_id, Tally())]
    if viewer_id != author_id:
        # What somebody does with their own posts says nothing of whom they like.
        tallies.append(observed.affinity.setdefault(viewer_id, {}).setdefault(author_id, Tally()))
    return tallies


def _see(observed: Observed, viewer_id: int, post_id: int, *, hidden: bool) -> None:
    seen = observed.seen.setdefault(viewer_id, {})
    # Taken out first, so that it comes last; and what is hidden stays so.
    was_hidden = seen.pop(post_id, False)
    seen[post_id] = hidden or was_hidden
