"""What people do with posts: like, repost, take it back, and tell what they do not care for."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from feedkit.errors import DeadlineExceeded, NotFound, Overloaded, Unavailable, post_not_found

from post_service.audience import Audience
from post_service.authors import Authors


class Engagement(Enum):
    """What somebody may do with a post, and take back. The values are the contract's."""

    LIKE = 1
    REPOST = 2


class Feedback(Enum):
    """What somebody has against a post. The values are the contract's."""

    LESS_LIKE_THIS = 1
    HIDE = 2


class Counts(NamedTuple):
    """What others did with a post."""

    likes: int
    reposts: int
    replies: int
    """Replies that are not deleted."""


class Outcome(NamedTuple):
    """What became of a wish: the counts with it in them, and whether it changed anything."""

    counts: Counts
    changed: bool


class TakenBack(NamedTuple):
    """What became of a wish to take something back."""

    counts: Counts | None
    """None where the actor is not shown the post, or nobody can tell whether."""
    changed: bool


class Store(Protocol):
    """Where engagement is kept. Each change is all or nothing, its event and its count included."""

    async def engage(self, actor_id: int, post_id: int, engagement: Engagement) -> Outcome | None:
        """Mark a post, or find it marked; None where no such post stands."""
        ...

    async def disengage(self, actor_id: int, post_id: int, engagement: Engagement) -> Outcome | None:
        """Take a mark back, or find none; None where no such post stands."""
        ...

    async def give_feedback(self, actor_id: int, post_id: int, feedback: Feedback) -> bool | None:
        """Record what somebody has against a post; whether that is new; None where no such post stands."""
        ...

    async def counts(self, post_ids: Sequence[int]) -> dict[int, Counts]:
        """The counts of those of the posts that stand."""
        ...


class Engagements:
    """What the service does with engagement. Every call may be repeated."""

    def __init__(self, store: Store, authors: Authors, audience: Audience) -> None:
        self._store = store
        self._authors = authors
        self._audience = audience

    async def engage(self, actor_id: int, post_id: int, engagement: Engagement) -> Outcome:
        """Like or repost a post.

        Raises NotFound (the actor; the post, also where one of actor and author blocks the other), PermissionDenied (the
        actor is suspended), Unavailable.
        """
        await self._authors.require(actor_id, "actor_id")
        await self._audience.require(actor_id, "actor_id", post_id)
        return _of_standing(post_id, await self._store.engage(actor_id, post_id, engagement))

    async def disengage(self, actor_id: int, post_id: int, engagement: Engagement) -> TakenBack:
        """Take a like or a repost back, also as a suspended user, or after a block: it leaves less behind.

        Raises NotFound (the actor; the post), Unavailable.
        """
        await self._authors.require_account(actor_id, "actor_id")
        counts, changed = _of_standing(post_id, await self._store.disengage(actor_id, post_id, engagement))
        return TakenBack(counts if await self._is_shown(actor_id, post_id) else None, changed)

    async def _is_shown(self, actor_id: int, post_id: int) -> bool:
        try:
            await self._audience.require(actor_id, "actor_id", post_id)
        except (NotFound, Unavailable, Overloaded, DeadlineExceeded):
            return False
        return True

    async def give_feedback(self, actor_id: int, post_id: int, feedback: Feedback) -> bool:
        """Tell what the actor has against a post; whether that is new. Its author never learns of it.

        Raises NotFound (the actor; the post), Unavailable.
        """
        await self._authors.require_account(actor_id, "actor_id")
        changed = await self._store.give_feedback(actor_id, post_id, feedback)
        if changed is None:
            raise post_not_found(post_id)
        return changed

    async def counts(self, post_ids: Sequence[int]) -> dict[int, Counts]:
        """The exact counts of those of the posts that stand, each once, in the order asked for."""
        found = await self._store.counts(post_ids)
        return {post_id: found[post_id] for post_id in dict.fromkeys(post_ids) if post_id in found}


def _of_standing(post_id: int, outcome: Outcome | None) -> Outcome:
    if outcome is None:
        raise post_not_found(post_id)
    return outcome
