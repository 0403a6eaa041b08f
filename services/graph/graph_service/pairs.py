"""What one user may do to another one: whether a block or a mute is new, stands, or is refused."""

from collections.abc import Set
from typing import NamedTuple

from feedkit.errors import FailedPrecondition, user_not_found


class Pair(NamedTuple):
    """How an actor stands to one other user. It cannot change while that is judged."""

    existing: Set[int]
    """Those of the two that exist."""
    stands: bool
    """Whether what is asked for stands already."""
    number: int
    """How many of the kind the actor has, with this one if it stands."""


class Rule(NamedTuple):
    """What is told where it is refused."""

    field: str
    """The request field that names the other one."""
    verb: str
    """What the actor does, in the third person."""
    self_refused: str
    limit_reached: str
    limit: int


def require_both(existing: Set[int], actor_id: int, other_id: int, field: str) -> None:
    """Raise NotFound where one of the two is not among the `existing`; `field` names the other one."""
    if actor_id not in existing:
        raise user_not_found(actor_id, "actor_id")
    if other_id not in existing:
        raise user_not_found(other_id, field)


def is_new(pair: Pair, actor_id: int, other_id: int, rule: Rule) -> bool:
    """Whether what is asked for is to be made; False where it stands. Raises NotFound and FailedPrecondition."""
    require_both(pair.existing, actor_id, other_id, rule.field)
    if actor_id == other_id:
        raise FailedPrecondition(rule.self_refused, f"{rule.field}: nobody {rule.verb} themselves")
    if not pair.stands and pair.number >= rule.limit:
        message = f"actor_id: {rule.verb} {rule.limit} users, which is as many as one may"
        raise FailedPrecondition(rule.limit_reached, message, limit=rule.limit)
    return not pair.stands
