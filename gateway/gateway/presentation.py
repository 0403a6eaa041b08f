"""Messages of the services as the JSON that the public sees.

Ids are strings, because a JSON number loses them in JavaScript; times are RFC 3339 in UTC with three decimals; every
member is always present, `nextCursor` alone excepted, whose absence is the end. Structs, because msgspec writes them
about a third faster than dicts.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from msgspec import UNSET, Struct, UnsetType

_DAY_MS = 86_400_000
_OUTCOMES = {
    graph_pb2.FOLLOW_OUTCOME_FOLLOWED: "followed",
    graph_pb2.FOLLOW_OUTCOME_ALREADY: "already",
    graph_pb2.FOLLOW_OUTCOME_REFUSED: "refused",
}


class User(Struct, rename="camel", gc=False):
    """Somebody who writes and reads."""

    id: str
    name: str
    follower_count: int
    following_count: int
    suspended: bool


class Author(Struct, gc=False):
    """Who wrote a post."""

    id: str
    name: str


class Media(Struct, rename="camel", gc=False):
    """A picture, a film or a sound; sizes in pixels, 0 if not known."""

    url: str
    type: str
    width: int
    height: int
    alt_text: str


class Counts(Struct, gc=False):
    """What others did with a post."""

    likes: int
    reposts: int
    replies: int


class Counted(Struct):
    """What others did with a post, by itself."""

    counts: Counts | None


class Post(Struct, rename="camel"):
    """A post with its author; `counts` are None where they are not known just now."""

    id: str
    author_id: str
    author: Author
    content: str
    media: list[Media]
    created_at: str
    edited_at: str | None
    reply_to: str | None
    counts: Counts | None


class Relationship(Struct, rename="camel", gc=False):
    """How the viewer and a user stand to one another."""

    user_id: str
    following: bool
    followed_by: bool
    muting: bool
    blocking: bool
    favourite: bool


class FollowResult(Struct, rename="camel", gc=False):
    """What became of one follow of many."""

    user_id: str
    outcome: str
    reason: str | UnsetType = UNSET


class FollowResults(Struct):
    """What became of each follow."""

    results: list[FollowResult]


class Page(Struct, rename="camel"):
    """A batch, or a page of a longer list."""

    items: Sequence[Struct]
    next_cursor: str | UnsetType = UNSET


def timestamp(ms: int) -> str:
    """Unix milliseconds as RFC 3339 in UTC, with exactly three decimals."""
    days, rest = divmod(ms, _DAY_MS)
    seconds, ms = divmod(rest, 1000)
    return f"{_date(days)}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{ms:03d}Z"


@lru_cache(maxsize=4096)
def _date(days: int) -> str:
    # The posts of a feed are from few days, and a date is the dear part of a timestamp.
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def post(message: post_pb2.Post, author_name: str, counts: post_pb2.EngagementCounts | None) -> Post:
    """A post. This is the hot path: every field of the messages is read once."""
    author_id = str(message.author_id)
    media = message.media
    edited_at_ms = message.edited_at_ms
    reply_to = message.reply_to_post_id
    return Post(
        str(message.id),
        author_id,
        Author(author_id, author_name),
        message.content,
        [_media(item) for item in media] if media else [],
        timestamp(message.created_at_ms),
        timestamp(edited_at_ms) if edited_at_ms else None,
        str(reply_to) if reply_to else None,
        None if counts is None else Counts(counts.likes, counts.reposts, counts.replies),
    )


def _media(message: post_pb2.MediaReference) -> Media:
    return Media(message.url, message.type, message.width, message.height, message.alt_text)


def hydrated(message: hydrate_pb2.HydratedPost) -> Post:
    """A post that hydrate has loaded."""
    return post(message.post, message.author_name, message.counts if message.HasField("counts") else None)


def counted(message: post_pb2.EngagementCounts | None) -> Counted:
    """What others did with a post; None where it is not told."""
    return Counted(None if message is None else Counts(message.likes, message.reposts, message.replies))


def page(items: Sequence[Struct], next_cursor: str = "") -> Page:
    """A page; an empty cursor is the end."""
    return Page(items, next_cursor or UNSET)


def user(message: graph_pb2.User) -> User:
    """A user with counts."""
    suspended = message.standing == graph_pb2.USER_STANDING_SUSPENDED
    return User(str(message.id), message.name, message.follower_count, message.following_count, suspended)


def users(messages: Iterable[graph_pb2.User], next_page_token: str = "") -> Page:
    """A batch of users with counts, or a page of a longer list of them."""
    return page([user(message) for message in messages], next_page_token)


def relationship(message: graph_pb2.Relationship) -> Relationship:
    """How the viewer and a user stand to one another. That the user blocks the viewer is nothing to be told."""
    return Relationship(
        str(message.user_id),
        message.following,
        message.followed_by,
        message.muting,
        message.blocking,
        message.favourite,
    )


def follow_results(message: graph_pb2.BatchFollowResponse) -> FollowResults:
    """What became of each follow."""
    return FollowResults(
        [
            FollowResult(str(result.followee_id), _OUTCOMES[result.outcome], result.reason or UNSET)
            for result in message.results
        ]
    )
