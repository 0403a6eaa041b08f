"""What may be shown of each post that is asked for: its body and its author's name, or why not.

Pure: posts and names come from loaders. A failed loader makes outcomes UNAVAILABLE and never an error, because a caller
with half of a page can still show that half.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from feedkit import errors

NOT_NOW = (errors.Unavailable, errors.Overloaded, errors.DeadlineExceeded)
"""How a loader says that it cannot answer now. Any other error is a fault, and is not hidden in an outcome."""


class Post(Protocol):
    """As much of a post as hydration looks at."""

    id: int
    author_id: int


PostT = TypeVar("PostT", bound=Post)
AnyPost_co = TypeVar("AnyPost_co", bound=Post, covariant=True)


class Posts(Protocol[AnyPost_co]):
    """Where posts are loaded from."""

    async def load(self, post_ids: Sequence[int]) -> Sequence[AnyPost_co]:
        """Those of the posts that exist and are not deleted, in any order; raises one of NOT_NOW."""
        ...


class Names(Protocol):
    """Where the names of authors are loaded from."""

    async def load(self, user_ids: Sequence[int]) -> Mapping[int, str]:
        """The names of those users that exist, by id; raises one of NOT_NOW."""
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
    """Hydrates from two loaders, each asked at most once for a batch."""

    def __init__(self, posts: Posts[PostT], names: Names) -> None:
        self._posts = posts
        self._names = names

    async def hydrate(self, post_ids: Sequence[int]) -> dict[int, Outcome[PostT]]:
        """The outcome of every distinct id, in the order in which they were asked for."""
        outcomes: dict[int, Outcome[PostT]] = dict.fromkeys(post_ids, Withheld.NOT_FOUND)
        if not outcomes:
            return outcomes
        try:
            posts = await self._posts.load(list(outcomes))
        except NOT_NOW:
            return dict.fromkeys(outcomes, Unavailable("post"))
        names = await self._names_of(posts)
        for post in posts:
            outcomes[post.id] = _outcome(post, names)
        return outcomes

    async def _names_of(self, posts: Sequence[PostT]) -> Mapping[int, str] | None:
        """The names of the authors; None where they cannot be had now."""
        if not posts:
            return {}
        try:
            return await self._names.load(list({post.author_id for post in posts}))
        except NOT_NOW:
            return None


def _outcome(post: PostT, names: Mapping[int, str] | None) -> Outcome[PostT]:
    if names is None:
        return Unavailable("graph")
    name = names.get(post.author_id)
    return Withheld.AUTHOR_NOT_FOUND if name is None else Shown(post, name)
