"""What may be shown of each post that is asked for: its body and its author's name, or why not.

Pure: posts and names come from a cache, and what it does not know from the truth. What cannot be had now makes outcomes
UNAVAILABLE and never an error, because a caller with half of a page can still show that half.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from hydrate_service.truth import NOT_NOW


class Post(Protocol):
    """As much of a post as hydration looks at."""

    id: int
    author_id: int


Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
PostT = TypeVar("PostT", bound=Post)

Known: TypeAlias = Mapping[int, Value | None]
"""What is known, by id; None: there is none. Of an id that is missing nothing is known."""


class Cache(Protocol[PostT]):
    """Where posts and names are looked for first."""

    async def read(
        self, post_ids: Sequence[int], author_ids: Sequence[int]
    ) -> tuple[dict[int, PostT | None], dict[int, str | None]]:
        """What is known of posts, and of their authors' names, in one round trip; raises one of NOT_NOW."""
        ...


class Reads(Protocol[Value_co]):
    """Reads of the truth, for what the cache does not know."""

    async def load(self, ids: Collection[int]) -> Mapping[int, Value_co | None]:
        """All that is known: of an id that is missing in the answer the truth cannot be had now."""
        ...


class Shown(NamedTuple, Generic[PostT]):
    """The post may be shown, and this is it."""

    post: PostT
    author_name: str


class Withheld(Enum):
    """The post is for good not shown, and this is why."""

    NOT_FOUND = "it has been deleted, or never was"
    AUTHOR_NOT_FOUND = "its author does not exist"


class Unavailable(NamedTuple):
    """Whether the post may be shown is not known now."""

    dependency: str
    """Who did not answer: `post` or `graph`."""


Outcome: TypeAlias = Shown[PostT] | Withheld | Unavailable


class Hydrator(Generic[PostT]):
    """Hydrates from a cache, and from the truth where the cache does not know or cannot be reached."""

    def __init__(self, cache: Cache[PostT], posts: Reads[PostT], names: Reads[str]) -> None:
        self._cache = cache
        self._posts = posts
        self._names = names

    async def hydrate(self, post_ids: Iterable[int], author_ids: Iterable[int] = ()) -> dict[int, Outcome[PostT]]:
        """The outcome of every distinct id, in the order in which they were asked for.

        `author_ids` are guesses of who wrote them: with the right ones, everything cached comes in one round trip.
        """
        wanted, guessed = list(dict.fromkeys(post_ids)), list(dict.fromkeys(author_ids))
        if not wanted:
            return {}
        posts, names = await self._cached(wanted, guessed)
        if unknown := [post_id for post_id in wanted if post_id not in posts]:
            posts.update(await self._posts.load(unknown))
        authors = {post.author_id for post in posts.values() if post is not None}
        if unnamed := authors - names.keys():
            names.update(await self._named(unnamed, guessed))
        return {post_id: _outcome(post_id, posts, names) for post_id in wanted}

    async def _named(self, authors: set[int], looked_for: Iterable[int]) -> Known[str]:
        """The names of authors, of whom only some have been looked for in the cache."""
        _, names = await self._cached([], sorted(authors.difference(looked_for)))
        if unknown := authors - names.keys():
            names.update(await self._names.load(unknown))
        return names

    async def _cached(
        self, post_ids: Sequence[int], author_ids: Sequence[int]
    ) -> tuple[dict[int, PostT | None], dict[int, str | None]]:
        if not post_ids and not author_ids:
            return {}, {}
        try:
            return await self._cache.read(post_ids, author_ids)
        except NOT_NOW:
            return {}, {}


def _outcome(post_id: int, posts: Known[PostT], names: Known[str]) -> Outcome[PostT]:
    if post_id not in posts:
        return Unavailable("post")
    post = posts[post_id]
    if post is None:
        return Withheld.NOT_FOUND
    if post.author_id not in names:
        return Unavailable("graph")
    name = names[post.author_id]
    return Withheld.AUTHOR_NOT_FOUND if name is None else Shown(post, name)
