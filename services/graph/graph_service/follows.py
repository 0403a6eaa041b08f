"""Following and unfollowing: what is allowed, and what becomes of each wish."""

from collections.abc import Callable, Sequence, Set
from enum import Enum, StrEnum, auto
from typing import NamedTuple, Protocol

from feedkit.errors import FailedPrecondition, FeedError, user_not_found


class Outcome(Enum):
    """What became of a wish to follow."""

    FOLLOWED = auto()
    ALREADY = auto()
    REFUSED = auto()


class Refusal(StrEnum):
    """Why a follow was refused; the values are names of error reasons."""

    CANNOT_FOLLOW_SELF = "CANNOT_FOLLOW_SELF"
    USER_NOT_FOUND = "USER_NOT_FOUND"
    FOLLOWING_LIMIT_REACHED = "FOLLOWING_LIMIT_REACHED"


class FollowResult(NamedTuple):
    """What became of the wish to follow one user; `refusal` is set where it was refused."""

    followee_id: int
    outcome: Outcome
    refusal: Refusal | None = None


class Standing(NamedTuple):
    """How an actor stands to the users that a request names. It cannot change while the request is decided."""

    following_count: int
    """How many users the actor follows, named or not."""
    existing: Set[int]
    """Those of the named users that exist."""
    followed: Set[int]
    """Those of the named users that the actor follows."""


Judge = Callable[[Standing], list[FollowResult]]


class FollowStore(Protocol):
    """Where follows are kept."""

    async def follow(self, actor_id: int, followee_ids: Sequence[int], judge: Judge) -> list[FollowResult] | None:
        """Make those follows that `judge` finds FOLLOWED, in that order, and return what it found.

        All or nothing, and nobody else changes whom the actor follows meanwhile. `judge` may be asked more than once.
        None for an unknown actor.
        """
        ...

    async def unfollow(self, actor_id: int, followee_id: int) -> Standing | None:
        """End a follow if it stands, and return how things stood before; None for an unknown actor."""
        ...


class CachedContexts(Protocol):
    """What timelines remember of whom their viewers follow."""

    async def forget(self, viewer_id: int) -> None:
        """See that nothing from before now is remembered of a viewer.

        It ends in less than a second. Where it cannot be done in that, it is done behind the change.
        """
        ...


class Follows:
    """Follows and unfollows. Nobody gets beyond `limit` followees.

    Whatever succeeds has made timelines forget whom the actor followed, also where nothing changed: a caller who asks
    again may do so because the first try ended between the change and that.
    """

    def __init__(self, store: FollowStore, contexts: CachedContexts, limit: int) -> None:
        self._store = store
        self._contexts = contexts
        self._limit = limit

    async def follow(self, actor_id: int, followee_id: int) -> bool:
        """Make the actor follow a user; whether that is new. Raises NotFound and FailedPrecondition."""
        result = (await self.follow_many(actor_id, [followee_id]))[0]
        if result.refusal is not None:
            raise self._refused(result.refusal, followee_id)
        return result.outcome is Outcome.FOLLOWED

    async def follow_many(self, actor_id: int, followee_ids: Sequence[int]) -> list[FollowResult]:
        """Make the actor follow users; one result for each distinct id, in the order asked. Raises NotFound."""
        asked = list(dict.fromkeys(followee_ids))
        results = await self._store.follow(
            actor_id, asked, lambda standing: judge(actor_id, asked, standing, self._limit)
        )
        if results is None:
            raise user_not_found(actor_id, "actor_id")
        await self._contexts.forget(actor_id)
        return results

    async def unfollow(self, actor_id: int, followee_id: int) -> bool:
        """End a follow; whether there was one. Raises NotFound."""
        standing = await self._store.unfollow(actor_id, followee_id)
        if standing is None:
            raise user_not_found(actor_id, "actor_id")
        if followee_id not in standing.existing:
            raise user_not_found(followee_id, "followee_id")
        await self._contexts.forget(actor_id)
        return followee_id in standing.followed

    def _refused(self, refusal: Refusal, followee_id: int) -> FeedError:
        match refusal:
            case Refusal.USER_NOT_FOUND:
                return user_not_found(followee_id, "followee_id")
            case Refusal.CANNOT_FOLLOW_SELF:
                return FailedPrecondition(refusal, "followee_id: nobody follows themselves")
            case Refusal.FOLLOWING_LIMIT_REACHED:
                message = f"actor_id: follows {self._limit} users, which is as many as one may"
                return FailedPrecondition(refusal, message, limit=self._limit)


def judge(actor_id: int, followee_ids: Sequence[int], standing: Standing, limit: int) -> list[FollowResult]:
    """What becomes of each of the distinct `followee_ids`; where the limit does not let all in, the first get in."""
    room = limit - standing.following_count
    results: list[FollowResult] = []
    for followee_id in followee_ids:
        if followee_id == actor_id:
            result = FollowResult(followee_id, Outcome.REFUSED, Refusal.CANNOT_FOLLOW_SELF)
        elif followee_id not in standing.existing:
            result = FollowResult(followee_id, Outcome.REFUSED, Refusal.USER_NOT_FOUND)
        elif followee_id in standing.followed:
            result = FollowResult(followee_id, Outcome.ALREADY)
        elif room <= 0:
            result = FollowResult(followee_id, Outcome.REFUSED, Refusal.FOLLOWING_LIMIT_REACHED)
        else:
            result = FollowResult(followee_id, Outcome.FOLLOWED)
            room -= 1
        results.append(result)
    return results
