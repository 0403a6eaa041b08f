"""Pure models of what fanout works on: the truth, and Redis. Every call is one step, and waits for its turn."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

from fanout_service.authors import Standings
from fanout_service.events import AnyWish, Chunk, EdgeChange, GraphEvent, PostEvent
from fanout_service.leaving import ShrunkAuthor
from fanout_service.timelines import Entry, Recent, Share, State
from feedkit.errors import FailedPrecondition, NotFound

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
        self.mutes: dict[int, set[int]] = {}
        self.deleted: set[int] = set()
        """The users whose accounts are deleted."""
        self.active: set[int] = set()
        self.index: dict[int, int] = {}
        """The pulled authors, and how often that has been decided of each."""
        self.sequences_left: dict[int, int] = {}
        """How often it had been decided of those who left."""
        self.posts: dict[int, int] = {}
        """Authors by post."""

    def followed(self, viewer_id: int) -> set[int]:
        """Whose posts belong into a viewer's timeline."""
        return self.follows.get(viewer_id, set()) - self.mutes.get(viewer_id, set())

    def home(self, viewer_id: int) -> set[int]:
        """The posts that belong into a viewer's timeline."""
        authors = self.followed(viewer_id) - self.deleted
        return {post for post, author in self.posts.items() if author in authors}

    def follower_count(self, author_id: int) -> int:
        """How many follow an author."""
        return sum(author_id in followees for followees in self.follows.values())

    async def classify(self, author_ids: Collection[int]) -> Standings:
        """See `authors.Authors`."""
        await self._turn()
        return self._standings(author_ids, self.threshold)

    async def standings(self, author_ids: Collection[int]) -> Standings:
        """See `authors.Authors`."""
        await self._turn()
        return self._standings(author_ids, FAR)

    def _standings(self, author_ids: Collection[int], threshold: int) -> Standings:
        deleted = self.deleted & set(author_ids)
        for author in set(author_ids) - deleted:
            if author in self.index or self.follower_count(author) >= threshold:
                self.index[author] = self.index.get(author, self.sequences_left.get(author, 0)) + 1
        return Standings(self.index.keys() & set(author_ids), deleted)

    async def shrunk(self, follower_count: int, limit: int) -> Sequence[ShrunkAuthor]:
        """See `leaving.Index`."""
        await self._turn()
        small = sorted((self.follower_count(author), author) for author in self.index)
        return [ShrunkAuthor(author, self.index[author]) for count, author in small if count < follower_count][:limit]

    async def leave(self, author: ShrunkAuthor) -> bool:
        """See `leaving.Index`."""
        await self._turn()
        if self.index.get(author.author_id) != author.sequence:
            return False
        self.sequences_left[author.author_id] = self.index.pop(author.author_id)
        return True

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

    async def belongs(self, viewer_id: int, author_id: int) -> bool:
        """See `reconcile.Edges`."""
        await self._turn()
        return author_id in self.followed(viewer_id) and viewer_id not in self.deleted

    async def record_activity(self, viewer_id: int) -> None:
        """See `rebuild.Viewers`."""
        await self._turn()
        self._require(viewer_id)
        self.active.add(viewer_id)

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """See `rebuild.Viewers`."""
        await self._turn()
        self._require(viewer_id)
        return sorted(self.followed(viewer_id))

    def _require(self, viewer_id: int) -> None:
        if viewer_id not in self.follows or viewer_id in self.deleted:
            raise NotFound("USER_NOT_FOUND", "nobody")

    async def recent(self, author_ids: Collection[int], limit: int) -> Recent:
        """See `timelines.Posts`."""
        await self._turn()
        entries = sorted((Entry(*post) for post in self.posts.items() if post[1] in set(author_ids)), reverse=True)
        return Recent(entries[:limit], entries[limit - 1].post_id if len(entries) > limit else 0)


class ModelEdgeRemains:
    """Implements `erase.Remains` of `graph`: one edge at a time."""

    def __init__(self, truth: ModelTruth, turn: Turn = at_once) -> None:
        self._truth = truth
        self._turn = turn
        self.ended: Callable[[GraphEvent], None] = lambda _: None
        """Told of every follow that ends."""

    async def erase(self, user_id: int) -> bool:
        """See `erase.Remains`."""
        await self._turn()
        if user_id not in self._truth.deleted:
            raise FailedPrecondition("USER_NOT_DELETED", "somebody")
        self._truth.index.pop(user_id, None)
        for edges in (self._truth.follows, self._truth.mutes):
            for viewer, authors in edges.items():
                for author in list(authors):
                    if user_id in {viewer, author}:
                        authors.discard(author)
                        if edges is self._truth.follows:
                            self.ended(GraphEvent(viewer, author, EdgeChange.UNFOLLOWED))
                        return False
        return True


class ModelPostRemains:
    """Implements `erase.Remains` of `post`: one post at a time."""

    def __init__(self, truth: ModelTruth, turn: Turn = at_once) -> None:
        self._truth = truth
        self._turn = turn

    async def erase(self, user_id: int) -> bool:
        """See `erase.Remains`."""
        await self._turn()
        if user_id not in self._truth.deleted:
            raise FailedPrecondition("USER_NOT_DELETED", "somebody")
        left = [post for post, author in self._truth.posts.items() if author == user_id]
        for post in left[:1]:
            del self._truth.posts[post]
        return not left


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
    """Implements `timelines.Timelines` and `leaving.Histories`, script by script as `feedkit/lua` has them."""

    def __init__(self, length: int, turn: Turn = at_once) -> None:
        self._turn = turn
        self._length = length
        self._epochs = count()
        self.lists: dict[int, ModelTimeline] = {}
        self.round_trips: list[Sequence[int]] = []
        """To whom was pushed, or from whom withdrawn, by round trip."""

    def new_epoch(self) -> bytes:
        """See `leaving.Histories`."""
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

    async def push_history(self, viewer_ids: Sequence[int], history: Share, epoch: bytes) -> None:
        """See `leaving.Histories`."""
        await self._turn()
        self.round_trips.append(viewer_ids)
        for viewer_id in viewer_ids:
            if (timeline := self.lists.get(viewer_id)) is not None:
                timeline.horizon = max(timeline.horizon, history.left_out)
                self._add_history(timeline, history.entries, epoch)

    async def push_since(
        self, viewer_ids: Sequence[int], before: bytes, entries: Sequence[Entry], epoch: bytes
    ) -> Collection[int]:
        """See `leaving.Histories`."""
        await self._turn()
        others: set[int] = set()
        for viewer_id in viewer_ids:
            timeline = self.lists.get(viewer_id)
            if timeline is None or timeline.epoch != before:
                others.add(viewer_id)
                continue
            self._add_history(timeline, entries, epoch)
        return others

    def _add_history(self, timeline: ModelTimeline, entries: Sequence[Entry], epoch: bytes) -> None:
        timeline.entries.update(entry for entry in entries if entry.post_id > timeline.horizon)
        timeline.epoch = epoch
        timeline.trim(self._length)

    async def withdraw(self, viewer_ids: Sequence[int], post_ids: Sequence[int]) -> None:
        """See `timelines.Timelines`."""
        await self._turn()
        self.round_trips.append(viewer_ids)
        for viewer_id in viewer_ids:
            if (timeline := self.lists.get(viewer_id)) is not None:
                timeline.entries = {entry for entry in timeline.entries if entry.post_id not in post_ids}

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
        self.lists.setdefault(viewer_id, ModelTimeline(FAR, self.new_epoch()))

    async def remove(self, viewer_id: int) -> None:
        """See `timelines.Timelines`."""
        await self._turn()
        self.lists.pop(viewer_id, None)

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
        timeline.epoch = self.new_epoch()


class ModelCaches:
    """The other keys in Redis, of which the models keep only what was asked."""

    def __init__(self, timelines: ModelTimelines, turn: Turn = at_once) -> None:
        self._turn = turn
        self._timelines = timelines
        self.changed: list[PostEvent] = []
        self.announced: list[set[int]] = []
        self.contexts: set[int] = set()
        self.hidden: set[int] = set()
        self.standings: set[int] = set()
        self.users: set[int] = set()
        """Those of whom everything was forgotten."""

    async def posts_changed(self, events: Sequence[PostEvent]) -> None:
        """See `post_events.CachedPosts`."""
        await self._turn()
        self.changed.extend(events)

    async def edges_changed(self, contexts: Collection[int], hidden: Collection[int]) -> Collection[int]:
        """See `graph_events.CachedEdges`."""
        await self._turn()
        self.contexts.update(contexts)
        self.hidden.update(hidden)
        return self._timelines.lists.keys() & set(contexts)

    async def standings_changed(self, user_ids: Collection[int]) -> None:
        """See `account_events.CachedUsers`."""
        await self._turn()
        self.standings.update(user_ids)

    async def users_deleted(self, user_ids: Collection[int]) -> None:
        """See `account_events.CachedUsers`."""
        await self._turn()
        self.users.update(user_ids)
        for user_id in user_ids:
            self._timelines.lists.pop(user_id, None)

    async def announce(self, author_ids: Collection[int]) -> None:
        """See `post_events.Recents`."""
        await self._turn()
        self.announced.append(set(author_ids))


class ModelTopics:
    """Where chunks and wishes are left; both are kept, and told of."""

    def __init__(self, turn: Turn = at_once) -> None:
        self._turn = turn
        self.chunks: list[Chunk] = []
        self.wishes: list[AnyWish] = []
        self.came: Callable[[Chunk | AnyWish], None] = lambda _: None

    async def leave(self, work: Sequence[Chunk] | Sequence[AnyWish]) -> None:
        """See `delivery.Chunks` and `wishes.Wishes`."""
        await self._turn()
        for piece in work:
            if isinstance(piece, Chunk):
                self.chunks.append(piece)
            else:
                self.wishes.append(piece)
            self.came(piece)
