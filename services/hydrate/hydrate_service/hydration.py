"""What may be shown of each post that is asked for: its body, its author's name and its counts, or why not.

Pure: posts, counts, authors and what is hidden from the viewer come from a cache, and what it does not know from the truth;
`visibility` decides. What cannot be had now makes outcomes UNAVAILABLE and never an error, because a caller with half of a
page can still show that half. Counts decide on nothing: a post whose counts cannot be had is shown without them.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from feedkit.errors import FeedError

from hydrate_service.truth import NOT_NOW
from hydrate_service.visibility import (
    NOTHING_HIDDEN,
    Author,
    Hides,
    Objection,
    Surface,
    Unavailable,
    Viewing,
    Withheld,
    judged,
)

logger = logging.getLogger(__name__)


class Post(Protocol):
    """As much of a post as hydration looks at."""

    id: int
    author_id: int


class Counts(Protocol):
    """What others did with a post."""

    @property
    def likes(self) -> int:
        """How many people like it."""
        ...

    @property
    def reposts(self) -> int:
        """How many people have reposted it."""
        ...

    @property
    def replies(self) -> int:
        """How many replies to it there are."""
        ...


Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
PostT = TypeVar("PostT", bound=Post)

Known: TypeAlias = Mapping[int, Value | None]
"""What is known, by id; None: there is none. Of an id that is missing nothing is known."""


class Cached(NamedTuple, Generic[PostT]):
    """What the cache knows."""

    posts: dict[int, PostT | None]
    authors: dict[int, Author | None]
    hides: Hides | None
    """None: it does not know, or was not asked."""
    counts: dict[int, Counts]


class Cache(Protocol[PostT]):
    """Where everything is looked for first."""

    async def read(self, post_ids: Sequence[int], author_ids: Sequence[int], viewer_id: int = 0) -> Cached[PostT]:
        """What is known of posts and their counts, of authors and, unless that is 0, of what is hidden from a viewer.

        In one round trip. Raises one of NOT_NOW.
        """
        ...


class Reads(Protocol[Value_co]):
    """Reads of the truth, for what the cache does not know."""

    async def load(self, ids: Collection[int]) -> Mapping[int, Value_co | None]:
        """All that is known: of an id that is missing in the answer the truth cannot be had now."""
        ...


class Blocks(Protocol):
    """The truth about a viewer and single authors, for viewers whom more block than can be listed."""

    async def between(self, viewer_id: int, author_ids: Collection[int]) -> Collection[int]:
        """Those of the authors who block the viewer, or whom the viewer blocks. Raises one of NOT_NOW."""
        ...


class Shown(NamedTuple, Generic[PostT]):
    """The post may be shown, and this is it."""

    post: PostT
    author_name: str
    counts: Counts | None
    """None: not known now."""


Outcome: TypeAlias = Shown[PostT] | Objection


class Hydrator(Generic[PostT]):
    """Hydrates from a cache, and from the truth where the cache does not know or cannot be reached."""

    def __init__(
        self,
        cache: Cache[PostT],
        posts: Reads[PostT],
        authors: Reads[Author],
        hides: Reads[Hides],
        blocks: Blocks,
        *,
        counts: Reads[Counts],
        note_withheld: Callable[[Withheld, Surface], None],
    ) -> None:
        """`hides` are read by viewer, and `counts` by post. `note_withheld` is told of each post that is withheld."""
        self._cache = cache
        self._posts = posts
        self._authors = authors
        self._hides = hides
        self._blocks = blocks
        self._counts = counts
        self._note_withheld = note_withheld

    async def hydrate(
        self, post_ids: Iterable[int], author_ids: Iterable[int] = (), *, viewer_id: int, surface: Surface
    ) -> dict[int, Outcome[PostT]]:
        """The outcome of every distinct id, in the order in which they were asked for, for a viewer, 0 being nobody.

        `author_ids` tell who wrote each, or are left out: with them, everything cached comes in one round trip. A post that
        somebody else wrote is not found.
        """
        asked = list(post_ids)
        told = dict(zip(asked, author_ids, strict=False))
        wanted, guessed = list(dict.fromkeys(asked)), list(dict.fromkeys(told.values()))
        if not wanted:
            return {}
        cached = await self._cached(wanted, guessed, viewer_id)
        judging = self._judged(wanted, told, cached, viewer_id, surface)
        if uncounted := _uncounted(wanted, cached):
            judgements, counted = await asyncio.gather(judging, self._counted(uncounted))
            cached.counts.update(counted)
        else:
            judgements = await judging
        outcomes = {post_id: _outcome(post_id, cached, judgements) for post_id in wanted}
        for outcome in outcomes.values():
            if isinstance(outcome, Withheld):
                self._note_withheld(outcome, surface)
        return outcomes

    async def _judged(
        self,
        wanted: Iterable[int],
        told: Mapping[int, int],
        cached: Cached[PostT],
        viewer_id: int,
        surface: Surface,
    ) -> Mapping[int, Author | Objection]:
        """What there is against showing posts of each of their writers; also completes what is known of the posts."""
        posts, authors, hides, _ = cached
        if unknown := [post_id for post_id in wanted if post_id not in posts]:
            posts.update(await self._posts.load(unknown))
        for post_id, author_id in told.items():
            if (post := posts.get(post_id)) is not None and post.author_id != author_id:
                posts[post_id] = None
        writers = {post.author_id for post in posts.values() if post is not None}
        # Of nobody's posts and of one's own nothing has to be known.
        others = writers - {viewer_id} if viewer_id else set[int]()
        unnamed = writers - authors.keys()
        if unnamed or (others and (hides is None or hides.more_block)):
            named, hides = await asyncio.gather(
                self._named(unnamed, told.values()), self._hides_among(others, viewer_id, hides)
            )
            authors.update(named)
        return judged(writers, authors, Viewing(viewer_id, surface, hides if viewer_id else NOTHING_HIDDEN))

    async def _counted(self, post_ids: Collection[int]) -> Mapping[int, Counts]:
        """The counts of posts, as far as they can be had: whatever goes wrong with them, the posts are shown."""
        try:
            counts = await self._counts.load(post_ids)
        except FeedError as error:
            logger.warning("posts are shown without their counts: %s", error)
            return {}
        return {post_id: one for post_id, one in counts.items() if one is not None}

    async def _named(self, authors: set[int], looked_for: Iterable[int]) -> Known[Author]:
        """What is known of authors, of whom only some have been looked for in the cache."""
        _, found, _, _ = await self._cached([], sorted(authors.difference(looked_for)))
        if unknown := authors - found.keys():
            found.update(await self._authors.load(unknown))
        return found

    async def _hides_among(self, others: set[int], viewer_id: int, hides: Hides | None) -> Hides | None:
        """What is hidden from a viewer, as far as it concerns some others; None where that cannot be had now."""
        if not others:
            return hides
        if hides is None:
            hides = (await self._hides.load([viewer_id])).get(viewer_id)
        if hides is None or not hides.more_block:
            return hides
        unlisted = {author_id for author_id in others if author_id not in hides.blocked}
        try:
            more = await self._blocks.between(viewer_id, unlisted) if unlisted else ()
        except NOT_NOW:
            return hides
        return Hides((others - unlisted).union(more), hides.muted, more_block=False)

    async def _cached(self, post_ids: Sequence[int], author_ids: Sequence[int], viewer_id: int = 0) -> Cached[PostT]:
        if not post_ids and not author_ids:
            return Cached({}, {}, None, {})
        try:
            return await self._cache.read(post_ids, author_ids, viewer_id)
        except NOT_NOW:
            return Cached({}, {}, None, {})


def _uncounted(wanted: Iterable[int], cached: Cached[PostT]) -> list[int]:
    """The posts whose counts have to be asked for: also those not known yet, so that both come together."""
    posts, counts = cached.posts, cached.counts
    return [
        post_id for post_id in wanted if post_id not in counts and (post_id not in posts or posts[post_id] is not None)
    ]


def _outcome(post_id: int, known: Cached[PostT], judgements: Mapping[int, Author | Objection]) -> Outcome[PostT]:
    if post_id not in known.posts:
        return Unavailable("post")
    post = known.posts[post_id]
    if post is None:
        return Withheld.NOT_FOUND
    judgement = judgements[post.author_id]
    if isinstance(judgement, Author):
        return Shown(post, judgement.name, known.counts.get(post_id))
    return judgement
