"""Home timelines as they are opened for a read: whose posts belong into one, and the sources that have them.

A warm read needs one round trip to the cache for all of it, and asks nobody else. Whatever is missing there is unknown,
never empty, and is asked of its owner.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from feedkit.cursor import MAX_PAGE_SIZE

from timeline_service.author_posts import AuthorPosts, CachedLists
from timeline_service.authors_source import AuthorsSource
from timeline_service.contexts import Contexts
from timeline_service.materialised import Materialised, MaterialisedSource
from timeline_service.origins import Origins
from timeline_service.pull_source import Pull, PullSource
from timeline_service.recents import Recents
from timeline_service.source import BEGINNING, NOT_NOW, TOP, Source
from timeline_service.viewer import Context, Viewer


class Glance(NamedTuple):
    """What the cache has for a read; None stands for what it has not."""

    context: Context | None
    timeline: Materialised | None
    own: AuthorPosts | None


class HomeStore(Protocol):
    """Where home timelines and what is needed for them are kept.

    Every method raises one of source.NOT_NOW where the store does not answer.
    """

    async def glance(self, viewer_id: int, newest: int | None) -> Glance:
        """All that a read needs, in one round trip; of the timeline so many of the newest entries, or, by None, all."""
        ...

    async def context(self, viewer_id: int) -> Context | None:
        """The viewer's context, if that is there."""
        ...

    async def whole_timeline(self, viewer_id: int) -> Materialised | None:
        """All of a timeline, if it is there."""
        ...


class Home(NamedTuple):
    """A home timeline, opened."""

    viewer: Viewer
    sources: Sequence[Source]
    """They have, together, what the viewer's authors wrote below the position for which it was opened."""
    origins: Origins
    """Where entries came from that were read from the sources."""
    cache_answered: bool = True
    """Whether the cache answered; while it does not, everything is pulled."""


class Homes:
    """Opens home timelines."""

    def __init__(
        self,
        store: HomeStore,
        contexts: Contexts,
        pull: Pull,
        own: CachedLists,
        recents: Recents,
        *,
        pulled: Callable[[], frozenset[int] | None],
        wish_rebuild: Callable[[int], None],
    ) -> None:
        """`pulled` tells which authors are pulled, None where everything is; `wish_rebuild` takes note of a viewer whose
        timeline is missing or short."""
        self._store = store
        self._contexts = contexts
        self._pull = pull
        self._own = own
        self._recents = recents
        self._pulled = pulled
        self._wish_rebuild = wish_rebuild

    async def open(self, viewer_id: int, position: int, size: int) -> Home:
        """Open a viewer's home timeline to read a page of `size` posts below a position.

        Raises NotFound, USER_NOT_FOUND, for nobody's id, and one of source.NOT_NOW where nobody can tell whom the viewer
        follows.
        """
        # Before the timeline is read: an author leaves those who are pulled only when all timelines have their posts.
        pulled = self._pulled()
        try:
            glance = await self._glance(viewer_id, position, size, everything_is_pulled=pulled is None)
        except NOT_NOW:
            viewer = await self._contexts.read(viewer_id)
            return self._pulled_home(viewer, cache_answered=False)
        if glance.context is None:
            viewer = await self._contexts.read_and_fill(viewer_id)
        else:
            viewer = Viewer.of(viewer_id, glance.context)
        if pulled is None:
            return self._pulled_home(viewer)
        return self._home(viewer, position, size, glance, pulled & viewer.authors)

    async def _glance(self, viewer_id: int, position: int, size: int, *, everything_is_pulled: bool) -> Glance:
        if everything_is_pulled:
            return Glance(await self._store.context(viewer_id), None, None)
        return await self._store.glance(viewer_id, _enough_for(size) if position == TOP else None)

    def _pulled_home(
        self, viewer: Viewer, pulled: frozenset[int] = frozenset(), *, cache_answered: bool = True
    ) -> Home:
        """All of it is pulled."""
        return Home(viewer, [PullSource(self._pull, viewer.authors)], Origins(viewer.id, pulled), cache_answered)

    def _home(self, viewer: Viewer, position: int, size: int, glance: Glance, pulled: frozenset[int]) -> Home:
        """`pulled` are those of the viewer's authors whose posts are not pushed."""
        if not viewer.follows_somebody:
            return Home(viewer, [self._own_source(viewer, glance.own, BEGINNING)], Origins(viewer.id, pulled))
        if glance.timeline is None:
            self._wish_rebuild(viewer.id)
            return self._pulled_home(viewer, pulled)
        floor = glance.timeline.horizon
        if position <= floor + 1:
            return self._pulled_home(viewer, pulled)
        # Further down it ends somewhere; at the top it is only short where much has been taken out of it. Many a timeline
        # does not have as many as candidates are wanted.
        is_short = position == TOP and (size <= MAX_PAGE_SIZE or glance.timeline.entries.length < MAX_PAGE_SIZE)
        materialised = MaterialisedSource(
            glance.timeline,
            lambda: self._store.whole_timeline(viewer.id),
            below=PullSource(self._pull, viewer.authors),
            found_short=lambda: self._wish_rebuild(viewer.id) if is_short else None,
        )
        sources = [
            materialised,
            self._recents_source(pulled - {viewer.id}, floor),
            self._own_source(viewer, glance.own, floor),
        ]
        return Home(viewer, sources, Origins(viewer.id, pulled, materialised))

    def _recents_source(self, pulled_followees: frozenset[int], floor: int) -> Source:
        known = self._recents.known(pulled_followees)
        unknown = [author_id for author_id in pulled_followees if author_id not in known]
        return AuthorsSource(known, unknown, self._recents.get, self._pull, floor=floor)

    def _own_source(self, viewer: Viewer, own: AuthorPosts | None, floor: int) -> Source:
        known, unknown = ({}, [viewer.id]) if own is None else ({viewer.id: own}, [])
        return AuthorsSource(known, unknown, self._own.read, self._pull, floor=floor)


def _enough_for(size: int) -> int:
    """How many entries of a timeline a page of this size takes: with one ahead, and some that are dropped or withheld."""
    return 2 * (size + 1) + 20
