"""Pure models of what fanout works on: the truth, and Redis. Every call is one step, and waits for its turn."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from fanout_service.events import Chunk, PostEvent, Wish
from fanout_service.timelines import Entry, Recent, State
from feedkit.errors import NotFound

FAR = 10**9
"""A horizon above every post."""
Turn = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """The turn of those who never wait."""


class ModelTruth:
    """What `graph` and `post` know."""

    def __init__(self, turn: Turn = at_once, *, threshold: int = FAR) -> None:
        self._turn = turn
        self.threshold = threshold
        self.follows: dict[int, set[int]] = {}
        self.active: set[int] = set()
        self.index: set[int] = set()
        self.posts: dict[int, int] = {}
        """Authors by post."""

    def home(self, viewer_id: int) -> set[int]:
        """The posts of those whom a viewer follows."""
        return {post for post, author in self.posts.items() if author in self.follows[viewer_id]}

    async def pulled(self, author_ids: Collection[int]) -> Collection[int]:
        """See `post_events.PulledAuthors`."""
        await self._turn()
        for author in author_ids:
            if sum(author in followees for followees in self.follows.values()) >= self.threshold:
                self.index.add(author)
        return self.index & set(author_ids)

    async def pulled_already(self, author_ids: Collection[int]) -> Collection[int]:
        """See `follow_events.PulledAuthors`."""
        await self._turn()
        return self.index & set(author_ids)

    async def active_followers(self, author_id: int) -> AsyncGenerator[Sequence[int]]:
        """See `delivery.ActiveFollowers`: a page for each follower, read when it is asked for."""
        last = 0
        while True:
            await self._turn()
            left = [v for v in self.active if v > last and author_id in self.follows[v]]
            if not left:
                return
            last = min(left)
            yield [last]

    async def follows_now(self, viewer_id: int, author_id: int) -> bool:
        """See `reconcile.Edges`."""
        await self._turn()
        return author_id in self.follows.get(viewer_id, ())

    async def record_activity(self, viewer_id: int) -> None:
        """See `rebuild.Viewers`."""
        await self._turn()
        if viewer_id not in self.follows:
            raise NotFound("USER_NOT_FOUND", "nobody")
        self.active.add(viewer_id)

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """See `rebuild.Viewers`."""
        await self._turn()
        return sorted(self.follows[viewer_id])

    async def recent(self, author_ids: Collection[int], limit: int) -> Recent:
        """See `timelines.Posts`."""
        await self._turn()
        entries = sorted((Entry(*post) for post in self.posts.items() if post[1] in set(author_ids)), reverse=True)
        return Recent(entries[:limit], entries[limit - 1].post_id if len(entries) > limit else 0)


class ModelEdges:
    """Implements `reconcile.Edges`, whose one method has the name of the truth's own table."""

    def __init__(self, truth: ModelTruth) -> None:
        self._truth = truth

    async def follows(self, viewer_id: int, author_id: int) -> bool:
        """See `reconcile.Edges`."""
        return await self._truth.follows_now(viewer_id, author_id)


@dataclass
class ModelTimeline:
    """A home timeline, as `feedkit.keys` tells."""

    horizon: int
    epoch: bytes
    cut: int = 0
    entries: set[Entry] = field(default_factory=set[Entry])

    def trim(self, length: int) -> None:
        """Keep the newest; whatever goes raises horizon and cut."""
        for entry in sorted(self.entries, reverse=True)[length:]:
            self.entries.discard(entry)
            self.horizon = max(self.horizon, entry.post_id)
            self.cut = max(self.cut, entry.post_id)


class ModelTimelines:
    """Implements `timelines.Timelines`, script by script as `feedkit/lua` has them."""

    def __init__(self, length: int, turn: Turn = at_once) -> None:
        self._turn = turn
        self._length = length
        self._epochs = count()
        self.lists: dict[int, ModelTimeline] = {}
        self.round_trips: list[Sequence[int]] = []
        """To whom was pushed, by round trip."""

    def _new_epoch(self) -> bytes:
        return str(next(self._epochs)).encode()

    def shown(self, viewer_id: int) -> set[int]:
        """What readers take."""
        timeline = self.lists[viewer_id]
        return {entry.post_id for entry in timeline.entries if entry.post_id > timeline.horizon}

    async def push(self, viewer_ids: Sequence[int], entries: Sequence[Entry]) -> None:
        """See `timelines.Timelines`."""
        await self._turn()
        self.round_trips.append(viewer_ids)
        for viewer_id in viewer_ids:
            if (timeline := self.lists.get(viewer_id)) is not None:
                timeline.entries.update(entries)
                timeline.trim(self._length)

    async def state(self, viewer_id: int) -> State | None:
        """See `timelines.Timelines`."""
        await self._turn()
        timeline = self.lists.get(viewer_id)
        return None if timeline is None else State(timeline.horizon, timeline.epoch)

    async def begin_anew(self, viewer_id: int) -> None:
        """See `timelines.Timelines`: two commands, between which others may come."""
        await self._turn()
        self.lists.pop(viewer_id, None)
        await self._turn()
        self.lists.setdefault(viewer_id, ModelTimeline(FAR, self._new_epoch()))

    async def rebuild(self, viewer_id: int, epoch: bytes, entries: Sequence[Entry], left_out: int) -> bool:
        """See `timelines.Timelines`."""
        timeline = await self._unchanged(viewer_id, epoch)
        if timeline is None:
            return False
        timeline.entries.update(entries)
        timeline.horizon = max(left_out, timeline.cut)
        self._end(timeline)
        return True

    async def add_author(
        self, viewer_id: int, epoch: bytes, author_id: int, entries: Sequence[Entry], left_out: int
    ) -> bool:
        """See `timelines.Timelines`."""
        timeline = await self._unchanged(viewer_id, epoch)
        if timeline is None:
            return False
        timeline.entries.update(entries)
        timeline.horizon = max(timeline.horizon, left_out)
        self._end(timeline)
        return True

    async def remove_author(self, viewer_id: int, epoch: bytes, author_id: int) -> bool:
        """See `timelines.Timelines`."""
        timeline = await self._unchanged(viewer_id, epoch)
        if timeline is None:
            return False
        timeline.entries = {entry for entry in timeline.entries if entry.author_id != author_id}
        self._end(timeline)
        return True

    async def _unchanged(self, viewer_id: int, epoch: bytes) -> ModelTimeline | None:
        await self._turn()
        timeline = self.lists.get(viewer_id)
        return timeline if timeline is not None and timeline.epoch == epoch else None

    def _end(self, timeline: ModelTimeline) -> None:
        timeline.trim(self._length)
        timeline.epoch = self._new_epoch()


class ModelCaches:
    """The other keys in Redis, of which the models keep only what was asked."""

    def __init__(self, timelines: ModelTimelines, turn: Turn = at_once) -> None:
        self._turn = turn
        self._timelines = timelines
        self.changed: list[PostEvent] = []
        self.announced: list[Mapping[int, Sequence[int]]] = []
        self.forgotten: set[int] = set()

    async def posts_changed(self, events: Sequence[PostEvent]) -> None:
        """See `post_events.CachedPosts`."""
        await self._turn()
        self.changed.extend(events)

    async def contexts_changed(self, viewer_ids: Collection[int]) -> Collection[int]:
        """See `follow_events.Contexts`."""
        await self._turn()
        self.forgotten.update(viewer_ids)
        return self._timelines.lists.keys() & set(viewer_ids)

    async def announce(self, posts: Mapping[int, Sequence[int]]) -> None:
        """See `post_events.Recents`."""
        await self._turn()
        self.announced.append(posts)


class ModelTopics:
    """Where chunks and wishes are left; both are kept, and told of."""

    def __init__(self, turn: Turn = at_once) -> None:
        self._turn = turn
        self.chunks: list[Chunk] = []
        self.wishes: list[Wish] = []
        self.came: Callable[[Chunk | Wish], None] = lambda _: None

    async def leave(self, work: Sequence[Chunk] | Sequence[Wish]) -> None:
        """See `delivery.Chunks` and `follow_events.Wishes`."""
        await self._turn()
        for piece in work:
            if isinstance(piece, Chunk):
                self.chunks.append(piece)
            else:
                self.wishes.append(piece)
            self.came(piece)
