"""What `graph` and `post` know, as a model, and how the other services see it. Every question is one step."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fanout_service.authors import Standings
from fanout_service.events import EdgeChange, GraphEvent
from fanout_service.leaving import ShrunkAuthor
from fanout_service.timelines import Entry, Recent
from feed.post.v1 import post_pb2
from feedkit.errors import NotFound
from hydrate_service.hydration import Counts
from hydrate_service.visibility import Author, Hides
from timeline_service.pulled_index import Changes
from timeline_service.source import Stretch
from timeline_service.viewer import Context

from tests.oracle.protocols.turns import Turns
from tests.oracle.steps import Standing, Tie

PAGE = 2
"""How many followers there are in a page."""
NOBODY_HAS_SO_MANY = 1 << 60


@dataclass
class Post:
    """A post that is committed."""

    id: int
    author: int
    content: str
    edited: bool = False
    deleted: bool = False


@dataclass
class Truth:
    """The two databases."""

    people: Sequence[int]
    threshold: int
    posts: dict[int, Post] = field(default_factory=dict[int, Post])
    ties: dict[Tie, set[tuple[int, int]]] = field(default_factory=lambda: {tie: set() for tie in Tie})
    standing: dict[int, Standing] = field(default_factory=lambda: defaultdict(lambda: Standing.ACTIVE))
    active: set[int] = field(default_factory=set[int])

    index: dict[int, int] = field(default_factory=dict[int, int])
    """The pulled authors, and how often that has been decided of each."""
    _left: dict[int, int] = field(default_factory=dict[int, int])
    """How often it had been decided of those who left."""
    _moved: dict[int, int] = field(default_factory=dict[int, int])
    """The version of the index with which each author entered or left it last."""
    _version: int = 0

    def followers(self, author: int) -> list[int]:
        """Who follows an author, ascending."""
        return sorted(viewer for viewer, followee in self.ties[Tie.FOLLOW] if followee == author)

    def followees(self, viewer: int) -> list[int]:
        """Whom a viewer follows and does not mute, ascending. Raises NotFound for a deleted one."""
        if self.standing[viewer] is Standing.DELETED:
            raise NotFound("USER_NOT_FOUND", f"there is no user {viewer}")
        follows = self.ties[Tie.FOLLOW] - self.ties[Tie.MUTE]
        return sorted(followee for follower, followee in follows if follower == viewer)

    def newest(self, authors: Collection[int], below: int, limit: int) -> list[Post]:
        """The newest posts of some authors below an id, newest first."""
        wanted = set(authors)
        posts = [post for post in self.posts.values() if post.author in wanted and post.id < below and not post.deleted]
        return sorted(posts, key=lambda post: -post.id)[:limit]

    def pushed_to(self, viewer: int) -> set[int]:
        """The posts that belong into a viewer's home timeline because they are pushed."""
        pushed = set(self.followees(viewer)) - self.index.keys()
        return {post.id for post in self.newest(pushed, NOBODY_HAS_SO_MANY, len(self.posts))}

    # --- the index of pulled authors -------------------------------------------------------------------------------------

    def classified(self, authors: Collection[int], threshold: int) -> Standings:
        """How authors stand; who is found to be pulled is so decided once more."""
        deleted = {author for author in authors if self.standing[author] is Standing.DELETED}
        for author in sorted(set(authors) - deleted):
            if author in self.index:
                self.index[author] += 1
            elif len(self.followers(author)) >= threshold:
                self.index[author] = self._left.get(author, 0) + 1
                self._move(author)
        return Standings(self.index.keys() & set(authors), deleted)

    def leave(self, author: int) -> None:
        """Take an author out of the index."""
        if author in self.index:
            self._left[author] = self.index.pop(author)
            self._move(author)

    def _move(self, author: int) -> None:
        self._version += 1
        self._moved[author] = self._version

    def changes(self, since: int) -> Changes:
        """What has changed in the index since a version of it."""
        moved = [author for author, version in self._moved.items() if version > since]
        return Changes(
            self._version,
            [author for author in moved if author in self.index],
            [author for author in moved if author not in self.index],
        )

    # --- accounts --------------------------------------------------------------------------------------------------------

    def erase_edge(self, user: int) -> GraphEvent | bool | None:
        """Erase one edge of a deleted user: the event of a follow that ended, True for another edge, None for none left."""
        self.leave(user)
        self.active.discard(user)
        for tie, pairs in self.ties.items():
            for viewer, author in sorted(pairs):
                if user in {viewer, author}:
                    pairs.discard((viewer, author))
                    return GraphEvent(viewer, author, EdgeChange.UNFOLLOWED) if tie is Tie.FOLLOW else True
        return None


class FanoutsTruth:
    """What `fanout` asks of `graph` and `post`."""

    def __init__(self, truth: Truth, turns: Turns) -> None:
        self._truth = truth
        self._turns = turns
        self.ended: Callable[[GraphEvent], None] = lambda _: None
        """Told of every follow that an erasure ends."""

    async def classify(self, author_ids: Collection[int]) -> Standings:
        """See `authors.Authors`."""
        await self._turns.turn()
        return self._truth.classified(author_ids, self._truth.threshold)

    async def standings(self, author_ids: Collection[int]) -> Standings:
        """See `authors.Authors`."""
        await self._turns.turn()
        return self._truth.classified(author_ids, NOBODY_HAS_SO_MANY)

    async def active_followers(self, author_id: int) -> AsyncGenerator[Sequence[int]]:
        """See `delivery.ActiveFollowers`: pages that are read when they are asked for."""
        last = 0
        while True:
            await self._turns.turn()
            left = [one for one in self._truth.followers(author_id) if one > last and one in self._truth.active]
            if not left:
                return
            page = left[:PAGE]
            last = page[-1]
            yield page

    async def belongs(self, viewer_id: int, author_id: int) -> bool:
        """See `reconcile.Edges`."""
        await self._turns.turn()
        try:
            return author_id in self._truth.followees(viewer_id)
        except NotFound:
            return False

    async def record_activity(self, viewer_id: int) -> None:
        """See `rebuild.Viewers`."""
        await self._turns.turn()
        self._truth.followees(viewer_id)
        self._truth.active.add(viewer_id)

    async def followees(self, viewer_id: int) -> Sequence[int]:
        """See `rebuild.Viewers`."""
        await self._turns.turn()
        return self._truth.followees(viewer_id)

    async def recent(self, author_ids: Collection[int], limit: int) -> Recent:
        """See `timelines.Posts`."""
        await self._turns.turn()
        posts = self._truth.newest(author_ids, NOBODY_HAS_SO_MANY, limit)
        return Recent([Entry(post.id, post.author) for post in posts], posts[-1].id if len(posts) == limit else 0)

    async def shrunk(self, follower_count: int, limit: int) -> Sequence[ShrunkAuthor]:
        """See `leaving.Index`."""
        await self._turns.turn()
        truth = self._truth
        small = sorted((len(truth.followers(author)), author) for author in truth.index)
        return [ShrunkAuthor(author, truth.index[author]) for count, author in small if count < follower_count][:limit]

    async def leave(self, author: ShrunkAuthor) -> bool:
        """See `leaving.Index`."""
        await self._turns.turn()
        if self._truth.index.get(author.author_id) != author.sequence:
            return False
        self._truth.leave(author.author_id)
        return True

    async def erase_edges(self, user_id: int) -> bool:
        """`erase.Remains` of `graph`: one edge at a time."""
        await self._turns.turn()
        erased = self._truth.erase_edge(user_id)
        if isinstance(erased, GraphEvent):
            self.ended(erased)
        return erased is None

    async def erase_posts(self, user_id: int) -> bool:
        """`erase.Remains` of `post`: one post at a time."""
        await self._turns.turn()
        left = [post for post in self._truth.posts.values() if post.author == user_id and not post.deleted]
        for post in left[:1]:
            post.deleted = True
        return not left


class Remains:
    """Implements `erase.Remains`."""

    def __init__(self, erase: Callable[[int], Awaitable[bool]]) -> None:
        self._erase = erase

    async def erase(self, user_id: int) -> bool:
        """See there."""
        return await self._erase(user_id)


class TimelinesTruth:
    """What `timeline` asks of `graph` and `post`."""

    def __init__(self, truth: Truth, turns: Turns) -> None:
        self._truth = truth
        self._turns = turns

    async def context(self, viewer_id: int) -> Context:
        """See `contexts.Graph`."""
        await self._turns.turn()
        return Context(self._truth.followees(viewer_id))

    async def recent(self, authors: Collection[int], position: int, limit: int) -> Stretch:
        """See `pull_source.Pull`."""
        await self._turns.turn()
        posts = self._truth.newest(authors, position, limit)
        complete_to = posts[-1].id if len(posts) == limit else 0
        return Stretch([post.id for post in posts], [post.author for post in posts], complete_to)

    async def changes(self, since_version: int) -> Changes:
        """What `pulled_index.PulledIndex` asks."""
        await self._turns.turn()
        return self._truth.changes(since_version)


class HydratesTruth:
    """What `hydrate` asks of `graph` and `post`."""

    def __init__(self, truth: Truth, turns: Turns) -> None:
        self._truth = truth
        self._turns = turns

    async def posts(self, post_ids: Collection[int]) -> Mapping[int, post_pb2.Post]:
        """Those that stand."""
        await self._turns.turn()
        found = (self._truth.posts.get(post_id) for post_id in post_ids)
        return {
            post.id: post_pb2.Post(
                id=post.id, author_id=post.author, content=post.content, edited_at_ms=int(post.edited)
            )
            for post in found
            if post is not None and not post.deleted
        }

    async def authors(self, user_ids: Collection[int]) -> Mapping[int, Author]:
        """Those who are there."""
        await self._turns.turn()
        standing = self._truth.standing
        return {
            user: Author(user, f"Person {user}", standing[user] is Standing.SUSPENDED)
            for user in user_ids
            if standing[user] is not Standing.DELETED
        }

    async def hides(self, viewer_ids: Collection[int]) -> Mapping[int, Hides]:
        """What is hidden from viewers."""
        await self._turns.turn()
        blocks, mutes = self._truth.ties[Tie.BLOCK], self._truth.ties[Tie.MUTE]
        return {
            viewer: Hides(
                frozenset(_others(viewer, blocks) | _others(viewer, {(two, one) for one, two in blocks})),
                frozenset(_others(viewer, mutes)),
                more_block=False,
            )
            for viewer in viewer_ids
        }

    async def between(self, viewer_id: int, author_ids: Collection[int]) -> Collection[int]:
        """See `hydration.Blocks`."""
        return (await self.hides([viewer_id]))[viewer_id].blocked

    async def load(self, ids: Collection[int]) -> Mapping[int, Counts | None]:
        """See `hydration.Reads`: of counts, on which nothing depends, nothing is known."""
        return {}


def _others(one: int, pairs: Iterable[tuple[int, int]]) -> set[int]:
    return {other for mine, other in pairs if mine == one}
