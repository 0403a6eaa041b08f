"""A small world: what was written, whom the viewer follows, and a cache that has of it what a test lets it have.

The classes that read it are the real ones; only what they talk to over the network is modelled here.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from feedkit import keys
from feedkit.errors import Unavailable
from timeline_service.author_posts import AuthorPosts, CachedLists
from timeline_service.contexts import Contexts
from timeline_service.homes import Glance, Homes
from timeline_service.materialised import Materialised
from timeline_service.mix import Mix, Page
from timeline_service.recents import Recents
from timeline_service.source import Stretch
from timeline_service.viewer import Context, Viewer

from .histories import VIEWER, Hydration

STALENESS = 2.0
FOLLOWEES = (1, 2, 4, 5)
STRANGER = 9


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class World:
    """The truth, and what the cache has of it.

    Each call of a service or of the cache is noted in `calls`, once the next `mischief` has been done. Those in `away` do
    not answer.
    """

    def __init__(self, posts: Mapping[int, int], followees: Iterable[int] = FOLLOWEES) -> None:
        self.posts = dict(posts)
        self.deleted: dict[int, int] = {}
        """Posts that are not there any more, but still in lists."""
        self.suspended: set[int] = set()
        self.followees = sorted(followees)
        self.favourites: Sequence[int] = ()
        self.prefers_ranked = False
        self.pulled: frozenset[int] | None = frozenset()
        self.away: set[str] = set()
        self.calls: list[str] = []
        self.mischief: Iterator[Callable[[], None]] = iter(())
        self.wished: list[int] = []
        self.context: Context | None = None
        self.timeline: Materialised | None = None
        self.lists: dict[tuple[str, int], AuthorPosts] = {}

    def called(self, who: str, what: str) -> None:
        """A call begins."""
        next(self.mischief, lambda: None)()
        if who in self.away:
            raise Unavailable.of_dependency(who)
        self.calls.append(f"{who} {what}")

    @property
    def true_context(self) -> Context:
        """What `graph` says of the viewer."""
        return Context(self.followees, self.favourites, self.prefers_ranked)

    @property
    def expected(self) -> list[int]:
        """The oracle: what a walk must show."""
        authors = {VIEWER.id, *self.followees} - self.suspended
        return sorted((post for post, author in self.posts.items() if author in authors), reverse=True)

    # --- what the cache has --------------------------------------------------------------------------------------------

    def materialise(self, horizon: int = 0, more: Collection[int] = ()) -> None:
        """Give the viewer a timeline: all pushed posts above a horizon, and of `more` what may be in it too."""
        pushed = set(self.followees) - (self.pulled or set())
        entries = sorted(
            (post, author)
            for post, author in (self.posts | self.deleted).items()
            if author != VIEWER.id and (post in more or (post > horizon and author in pushed))
        )
        trailer = keys.Trailer(horizon, 0, bytes(keys.EPOCH_BYTES))
        self.timeline = Materialised(keys.Tail(keys.encode_entries(entries), trailer), horizon, whole=True)

    def list_posts(self, kind: str, author_id: int, horizon: int = 0) -> None:
        """Let an author's list of posts above a horizon be in the cache."""
        everything = (self.posts | self.deleted).items()
        newest_first = sorted((post for post, author in everything if author == author_id and post > horizon))[::-1]
        self.lists[kind, author_id] = AuthorPosts.of(newest_first, horizon)

    def warm(self, horizon: int = 0) -> None:
        """Let everything be in the cache that a read of the viewer needs."""
        self.context = self.true_context
        self.materialise(horizon)
        self.list_posts("own", VIEWER.id)
        for author_id in self.pulled or ():
            self.list_posts("recents", author_id)

    def evict(self) -> None:
        """Let the cache have nothing."""
        self.context = self.timeline = None
        self.lists.clear()


class Store:
    """See `homes.HomeStore` and `contexts.ContextStore`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def glance(self, viewer_id: int, newest: int | None) -> Glance:
        """See `homes.HomeStore`."""
        world = self._world
        world.called("redis", "glance")
        return Glance(world.context, _newest(world.timeline, newest), world.lists.get(("own", viewer_id)))

    async def context(self, viewer_id: int) -> Context | None:
        """See `homes.HomeStore`."""
        self._world.called("redis", "context")
        return self._world.context

    async def whole_timeline(self, viewer_id: int) -> Materialised | None:
        """See `homes.HomeStore`."""
        self._world.called("redis", "timeline")
        return self._world.timeline

    async def lease_context(self, viewer_id: int) -> bytes | None:
        """See `contexts.ContextStore`."""
        self._world.called("redis", "lease")
        return b"lease" if self._world.context is None else None

    async def fill_context(self, viewer_id: int, lease: bytes, context: Context) -> None:
        """See `contexts.ContextStore`."""
        self._world.called("redis", "fill")
        self._world.context = context


class Lists:
    """See `author_posts.ListStore`."""

    def __init__(self, world: World, kind: str) -> None:
        self._world = world
        self._kind = kind

    async def get(self, author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        """See `author_posts.ListStore`."""
        self._world.called("redis", self._kind)
        lists = {author_id: self._world.lists.get((self._kind, author_id)) for author_id in author_ids}
        return {author_id: posts for author_id, posts in lists.items() if posts is not None}

    async def lease(self, author_ids: Sequence[int]) -> Mapping[int, bytes]:
        """See `author_posts.ListStore`."""
        self._world.called("redis", "lease")
        return {author_id: b"lease" for author_id in author_ids if (self._kind, author_id) not in self._world.lists}

    async def fill(self, leases: Mapping[int, bytes], lists: Mapping[int, AuthorPosts]) -> None:
        """See `author_posts.ListStore`."""
        self._world.called("redis", "fill")
        assert leases.keys() >= lists.keys()
        self._world.lists |= {(self._kind, author_id): posts for author_id, posts in lists.items()}


class Graph:
    """See `contexts.Graph`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def context(self, viewer_id: int) -> Context:
        """See `contexts.Graph`."""
        self._world.called("graph", "context")
        return self._world.true_context


class Post:
    """See `pull_source.Pull`."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def recent(self, authors: Collection[int], position: int, limit: int) -> Stretch:
        """See `pull_source.Pull`."""
        self._world.called("post", f"pull {len(authors)}")
        posts = self._world.posts
        found = sorted((post for post in posts if post < position and posts[post] in authors), reverse=True)[:limit]
        return Stretch(found, [posts[post] for post in found], found[-1] if len(found) == limit else 0)


class Reader:
    """Reads the world as the service does."""

    def __init__(self, world: World, *, list_length: int = 10, remembered: int = 100) -> None:
        self.world = world
        self.clock = Clock()
        store, post = Store(world), Post(world)
        cached_recents = CachedLists(Lists(world, "recents"), post, list_length)
        self.recents = Recents(cached_recents.get, self.clock, staleness=STALENESS, remembered=remembered)
        self.contexts = Contexts(Graph(world), store)
        self.homes = Homes(
            store,
            self.contexts,
            post,
            CachedLists(Lists(world, "own"), post, list_length),
            self.recents,
            pulled=lambda: world.pulled,
            wish_rebuild=world.wished.append,
        )
        self.hydration = Hydration(world.deleted, withheld_authors=world.suspended)
        self.mix = Mix(self.hydration, hydration_rounds=8)

    async def page(self, viewer: Viewer, position: int, size: int) -> Page[int]:
        """See `mix.Mix`."""
        home = await self.homes.open(viewer.id, position, size)
        return await self.mix.page(home.viewer, home.sources, position, size)


def _newest(timeline: Materialised | None, newest: int | None) -> Materialised | None:
    if timeline is None or newest is None or not isinstance(timeline.entries, keys.Tail):
        return timeline
    tail = timeline.entries
    part = tail._replace(packed=tail.packed[-newest * keys.ENTRY_BYTES :])
    return Materialised(part, timeline.horizon, whole=tail.length < newest)
