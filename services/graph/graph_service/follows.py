"""Following and unfollowing: what is allowed, and what becomes of each wish."""

from collections.abc import Callable, Sequence, Set
from enum import Enum, StrEnum, auto
from typing import NamedTuple, Protocol

from feedkit.errors import FailedPrecondition, FeedError, PermissionDenied, user_not_found

from graph_service.caches import Caches


class Outcome(Enum):
    """What became of a wish to follow."""

    FOLLOWED = auto()
    ALREADY = auto()
    REFUSED = auto()


class Refusal(StrEnum):
    """Why a follow was refused; the values are names of error reasons."""

    CANNOT_FOLLOW_SELF = "CANNOT_FOLLOW_SELF"
    USER_NOT_FOUND = "USER_NOT_FOUND"
    USER_SUSPENDED = "USER_SUSPENDED"
    BLOCKED = "BLOCKED"
    FOLLOWING_LIMIT_REACHED = "FOLLOWING_LIMIT_REACHED"


class FollowResult(NamedTuple):
    """What became of the wish to follow one user; `refusal` is set where it was refused."""

    followee_id: int
    outcome: Outcome
    refusal: Refusal | None = None


class Situation(NamedTuple):
    """How an actor stands to the users that a request names, as it is while the request is decided.

    What the actor does cannot change meanwhile, nor can a block come between the two; others may be suspended or deleted.
    """

    following_count: int
    """How many users the actor follows, named or not."""
    existing: Set[int]
    """Those of the named users that exist."""
    followed: Set[int]
    """Those of the named users that the actor follows."""
    suspended: Set[int] = frozenset()
    """Those of the named users who are suspended."""
    apart: Set[int] = frozenset()
    """Those of the named users whom the actor blocks, or who block the actor."""
    actor_suspended: bool = False
    """Whether the actor is suspended."""


Judge = Callable[[Situation], list[FollowResult]]


class FollowStore(Protocol):
    """Where follows are kept."""

    async def follow(self, actor_id: int, followee_ids: Sequence[int], judge: Judge) -> list[FollowResult] | None:
        """Make those follows that `judge` finds FOLLOWED, in that order, and return what it found.

        All or nothing, and nobody else changes whom the actor follows meanwhile. `judge` may be asked more than once; what
        it raises is raised. None for an unknown actor.
        """
        ...

    async def unfollow(self, actor_id: int, followee_id: int) -> Situation | None:
        """End the follow of a user who exists, and return how things stood before; None for an unknown actor."""
        ...


class Follows:
    """Follows and unfollows. Nobody gets beyond `limit` followees.

    Whatever succeeds has made caches forget whom the actor followed, also where nothing changed: a caller who asks
    again may do so because the first try ended between the change and that.
    """

    def __init__(self, store: FollowStore, caches: Caches, limit: int) -> None:
        self._store = store
        self._caches = caches
        self._limit = limit

    async def follow(self, actor_id: int, followee_id: int) -> bool:
        """Make the actor follow a user; whether that is new.

        Raises NotFound, PermissionDenied and FailedPrecondition.
        """
        result = (await self.follow_many(actor_id, [followee_id]))[0]
        if result.refusal is not None:
            raise self._refused(result.refusal, followee_id)
        return result.outcome is Outcome.FOLLOWED

    async def follow_many(self, actor_id: int, followee_ids: Sequence[int]) -> list[FollowResult]:
        """Make the actor follow users; one result for each distinct id, in the order asked.

        Raises NotFound and PermissionDenied.
        """
        asked = list(dict.fromkeys(followee_ids))
        results = await self._store.follow(
            actor_id, asked, lambda situation: judge(actor_id, asked, situation, self._limit)
        )
        if results is None:
            raise user_not_found(actor_id, "actor_id")
        await self._caches.forget(contexts=[actor_id])
        return results

    async def unfollow(self, actor_id: int, followee_id: int) -> bool:
        """End a follow; whether there was one. Raises NotFound."""
        situation = await self._store.unfollow(actor_id, followee_id)
        if situation is None:
            raise user_not_found(actor_id, "actor_id")
        if followee_id not in situation.existing:
            raise user_not_found(followee_id, "followee_id")
        await self._caches.forget(contexts=[actor_id])
        return followee_id in situation.followed

    def _refused(self, refusal: Refusal, followee_id: int) -> FeedError:
        match refusal:
            case Refusal.USER_NOT_FOUND:
                return user_not_found(followee_id, "followee_id")
            case Refusal.CANNOT_FOLLOW_SELF:
                return FailedPrecondition(refusal, "followee_id: nobody follows themselves")
            case Refusal.USER_SUSPENDED:
                return FailedPrecondition(refusal, f"followee_id: {followee_id} is suspended", user_id=followee_id)
            case Refusal.BLOCKED:
                return FailedPrecondition(refusal, "followee_id: one of the two blocks the other", user_id=followee_id)
            case Refusal.FOLLOWING_LIMIT_REACHED:
                message = f"actor_id: follows {self._limit} users, which is as many as one may"
                return FailedPrecondition(refusal, message, limit=self._limit)


def judge(actor_id: int, followee_ids: Sequence[int], situation: Situation, limit: int) -> list[FollowResult]:
    """What becomes of each of the distinct `followee_ids`; where the limit does not let all in, the first get in.

    Raises PermissionDenied where the actor is suspended.
    """
    if situation.actor_suspended:
        raise PermissionDenied("ACCOUNT_SUSPENDED", "actor_id: a suspended account cannot follow")
    room = limit - situation.following_count
    results: list[FollowResult] = []
    for followee_id in followee_ids:
        if followee_id in situation.followed and followee_id in situation.existing:
            results.append(FollowResult(followee_id, Outcome.ALREADY))
        elif (refusal := _refusal(actor_id, followee_id, situation, room)) is not None:
            results.append(FollowResult(followee_id, Outcome.REFUSED, refusal))
        else:
            results.append(FollowResult(followee_id, Outcome.FOLLOWED))
            room -= 1
    return results


def _refusal(actor_id: int, followee_id: int, situation: Situation, room: int) -> Refusal | None:
    """Why a follow that does not stand is refused. What everybody may know comes before what is between the two."""
    if followee_id == actor_id:
        return Refusal.CANNOT_FOLLOW_SELF
    if followee_id not in situation.existing:
        return Refusal.USER_NOT_FOUND
    if followee_id in situation.suspended:
        return Refusal.USER_SUSPENDED
    if followee_id in situation.apart:
        return Refusal.BLOCKED
    return Refusal.FOLLOWING_LIMIT_REACHED if room <= 0 else None
