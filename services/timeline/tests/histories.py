"""Histories of posts in memory: sources that show parts of them, their hydration, and walks through their pages."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol

from feedkit.cursor import Position
from feedkit.errors import FeedError
from feedkit.errors import Unavailable as UnavailableError
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from timeline_service.entries import Entry
from timeline_service.hydration import MOST_AT_ONCE, Outcome, Shown, Unavailable, Withheld
from timeline_service.mix import Mix, Page
from timeline_service.source import NOT_NOW, TOP, Stretch
from timeline_service.viewer import Viewer

FOLLOWED = (1, 2, 3)
STRANGER = 9
VIEWER = Viewer(3, frozenset(FOLLOWED))


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For properties: an example may take as long as it does on a machine that is busy."""


class Listed:
    """A source of the posts in a dict, post → author, which may change between reads.

    `cap`: it never returns more at once. `stops`: ids that it never reads past in one go, as a horizon is; two stops
    without a post between give a stretch without entries. `sure`: when it was cut short it says that it is complete down to
    the next post it knows, not only to the last one returned. `failures`: one for each read, true for one that fails.
    `at_hand`: nobody has to be asked.
    """

    def __init__(
        self,
        posts: dict[int, int],
        *,
        cap: int = 1000,
        stops: Collection[int] = (),
        sure: bool = False,
        failures: Iterable[bool] = (),
        at_hand: bool = False,
    ) -> None:
        self.posts = posts
        self._at_hand = at_hand
        self.reads: list[tuple[int, int]] = []
        self.left_out: set[int] = set()
        self._cap = cap
        self._stops = stops
        self._sure = sure
        self._failures = iter(failures)

    def peek(self, position: int, limit: int) -> Stretch | None:
        """See `source.Source`."""
        return self._below(position, limit) if self._at_hand else None

    async def read(self, position: int, limit: int) -> Stretch:
        """See `source.Source`."""
        self.reads.append((position, limit))
        if next(self._failures, False):
            raise UnavailableError.of_dependency("source")
        return self._below(position, limit)

    def leave_out(self, author_id: int) -> None:
        """See `source.Source`."""
        self.left_out.add(author_id)

    def _below(self, position: int, limit: int) -> Stretch:
        stop = max((stop for stop in self._stops if stop < position), default=0)
        there = sorted(
            (post for post, author in self.posts.items() if stop <= post < position and author not in self.left_out),
            reverse=True,
        )
        most = min(limit, self._cap)
        found, rest = there[:most], there[most:]
        if rest:
            complete_to = rest[0] + 1 if self._sure else found[-1]
        else:
            # Like a query with LIMIT, it cannot know that the last row was the last.
            complete_to = found[-1] if len(found) == most and not self._sure else stop
        return Stretch(found, [self.posts[post] for post in found], complete_to)


class Hydration:
    """Hydrates ids to themselves.

    `unavailable`: how many times more a post is not available. `failures`: one for each call, true for one that fails.
    """

    def __init__(
        self,
        withheld: Collection[int] = (),
        unavailable: dict[int, int] | None = None,
        failures: Iterable[bool] = (),
        *,
        withheld_authors: Collection[int] = (),
    ) -> None:
        self.calls: list[list[int]] = []
        self.withheld = set(withheld)
        self.withheld_authors = set(withheld_authors)
        self.unavailable = unavailable or {}
        self.failures = iter(failures)

    async def hydrate(self, viewer_id: int, entries: Sequence[Entry]) -> Sequence[Outcome[int]]:
        """See `hydration.Hydrator`."""
        assert viewer_id == VIEWER.id
        post_ids = [entry.post_id for entry in entries]
        assert 0 < len(post_ids) == len(set(post_ids)) <= MOST_AT_ONCE
        self.calls.append(list(post_ids))
        if next(self.failures, False):
            raise UnavailableError.of_dependency("hydrate")
        return [self._outcome(*entry) for entry in entries]

    def _outcome(self, post_id: int, author_id: int) -> Outcome[int]:
        if self.unavailable.get(post_id, 0) > 0:
            self.unavailable[post_id] -= 1
            return Unavailable("post")
        if author_id in self.withheld_authors:
            return Withheld(with_its_author=True)
        return Withheld() if post_id in self.withheld else Shown(post_id)


class Pages(Protocol):
    """Whatever can be walked."""

    async def page(self, viewer: Viewer, position: int, size: int) -> Page[int]:
        """See `mix.Mix`."""
        ...


class Mixed(NamedTuple):
    """A mix over the same sources for every page."""

    mix: Mix[int]
    sources: Sequence[Listed]

    async def page(self, viewer: Viewer, position: int, size: int) -> Page[int]:
        """See `mix.Mix`."""
        for source in self.sources:
            source.left_out.clear()
        return await self.mix.page(viewer, self.sources, position, size)


def mix_of(*sources: Listed, hydration: Hydration | None = None, rounds: int = 8) -> Mixed:
    """A mix over these sources."""
    return Mixed(Mix(hydration or Hydration(), hydration_rounds=rounds), sources)


def posts(*ids: int, author: int = FOLLOWED[0]) -> dict[int, int]:
    """Posts of one author."""
    return dict.fromkeys(ids, author)


async def walk(
    mix: Pages,
    size: int,
    *,
    start: int = TOP,
    between: Callable[[], None] = lambda: None,
    retries: int = 0,
) -> list[list[int]]:
    """Every page from the top to the end, as a client walks: by the cursor alone.

    `between` runs between two pages; `retries` is how many failing requests are made again.
    """
    pages: list[list[int]] = []
    position = start
    while True:
        page, retries = await _patiently(mix, position, size, retries)
        assert len(page.posts) <= size
        pages.append(page.posts)
        if page.next_position is None:
            return pages
        assert page.next_position < position, "a cursor that does not advance"
        cursor = Position.parse(str(Position.of(page.next_position)))
        assert cursor is not None
        position = cursor.id_bound
        between()


async def _patiently(mix: Pages, position: int, size: int, retries: int) -> tuple[Page[int], int]:
    while True:
        try:
            return await mix.page(VIEWER, position, size), retries
        except NOT_NOW:
            if not retries:
                raise
            retries -= 1


async def error_of(awaitable: Awaitable[object]) -> FeedError | None:
    """What this failed with."""
    try:
        await awaitable
    except FeedError as error:
        return error
    return None


_ids = st.integers(1, 150)
_authors = st.sampled_from([*FOLLOWED, STRANGER])


@st.composite
def histories(draw: st.DrawFn, most: int = 50) -> tuple[dict[int, int], list[Listed]]:
    """Posts, post → author, some of strangers, and sources that together show all of them and overlap at random."""
    history = draw(st.dictionaries(_ids, _authors, max_size=most))
    count = draw(st.integers(1, 4))
    homes = [draw(st.sets(st.integers(0, count - 1), min_size=1)) for _ in history]
    sources = [
        Listed(
            {post: author for (post, author), home in zip(history.items(), homes, strict=True) if index in home},
            cap=draw(st.sampled_from([1, 2, 3, 8, 1000])),
            stops=draw(st.sets(_ids, max_size=6)),
            sure=draw(st.booleans()),
            at_hand=draw(st.booleans()),
        )
        for index in range(count)
    ]
    return history, sources
