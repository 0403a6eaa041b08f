"""Random schedules: what people do and what happens to them, and how the steps that follow from it are interleaved."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from feedkit import keys
from hypothesis import strategies as st

from tests.oracle.protocols.community import PEOPLE, Community, Limits
from tests.oracle.protocols.turns import Turns
from tests.oracle.steps import Standing, Tie

Act: TypeAlias = tuple[str, int, int]
"""What, by whom or of whom, and to whom or which."""

PERSON_KEYS = (keys.timeline, keys.context, keys.hidden, keys.own, keys.recents, keys.user)
NOBODY_HAS_SO_MANY = 100
MOST_STEPS = (1, 4, 16, 64)
"""Between two acts."""
OVERTAKEN_STEPS, OVERTAKING_STEPS = 20, 80
"""As many as it takes to come into the midst of something, and to its end."""
RACES = (
    ("rebuild", "follow"),
    ("rebuild", "follow"),
    ("rebuild", "mute"),
    ("rebuild", "write"),
    ("follow", "follow"),
    ("unfollow", "follow"),
    ("unfollow", "follow"),
    ("follow", "write"),
    ("mute", "mute"),
    ("leave", "write"),
    ("leave", "follow"),
    ("leave", "crash"),
    ("leave", "crash"),
)
"""What is overtaken, and by what."""

person, reader, number = st.sampled_from(PEOPLE), st.sampled_from(PEOPLE[:2]), st.integers(0, 20)


def _acts(who: st.SearchStrategy[int], *kinds: str) -> st.SearchStrategy[Act]:
    return st.tuples(st.sampled_from(kinds), who, person | number)


ACTS = st.one_of(
    _acts(person, "write", "write", "write", "look"),
    _acts(person, "follow", "follow", "unfollow"),
    _acts(person, "mute", "unmute", "block", "unblock"),
    _acts(person, "edit", "delete", "suspend", "restore"),
    _acts(person, "lose", "lose", "lose post", "lose all"),
    _acts(person, "leave", "repeat", "crash", "refresh", "time", "deaf", "race", "race"),
    _acts(person, "settle", "look", "close"),
)
AT_THE_LINE = st.one_of(
    _acts(person, "write", "look", "lose"),
    _acts(person, "follow", "unfollow", "unfollow"),
    _acts(person, "leave", "settle", "refresh", "crash", "race", "race"),
)
"""What lets authors enter and leave the index often."""
LEASES = st.one_of(
    _acts(reader, "look", "look", "lose", "lose", "lose post"),
    _acts(reader, "follow", "unfollow", "mute", "unmute", "edit", "delete", "write", "suspend", "restore"),
    _acts(reader, "settle", "look"),
)
"""What lets leases be lost often."""
REBUILDS = st.one_of(
    _acts(person, "write"),
    _acts(reader, "race"),
    _acts(reader, "race", "follow", "unfollow", "mute", "unmute", "lose timeline", "look", "settle"),
)
"""What lets a timeline be rewritten by several at the same time."""
SCHEDULES = st.one_of(*(st.lists(acts, min_size=10, max_size=40) for acts in (ACTS, AT_THE_LINE, LEASES, REBUILDS)))
LIMITS = st.builds(Limits, threshold=st.sampled_from([2, 3, NOBODY_HAS_SO_MANY]), length=st.sampled_from([3, 12]))
PERSISTENCE = st.sampled_from([0.0, 0.5, 0.8, 0.95])


def run(redis_port: int, schedule: Sequence[Act], limits: Limits, persistence: float, dice: Random) -> int:
    """Run a schedule; how many steps it had. Raises Difference."""
    return asyncio.run(_run(redis_port, schedule, limits, persistence, dice))


async def _run(redis_port: int, schedule: Sequence[Act], limits: Limits, persistence: float, dice: Random) -> int:
    steps = 0

    def choose(waiting: int) -> int:
        nonlocal steps
        steps += 1
        # Who came last goes on, for long stretches, because a race is often lost by one who sleeps through all of another.
        return waiting - 1 if dice.random() < persistence else dice.randrange(waiting)

    turns = Turns()
    community = Community(redis_port, turns, dice, limits)
    community.redis.now(("FLUSHALL",))
    try:
        for follower in PEOPLE[:-1]:
            community.tie(Tie.FOLLOW, follower, follower + 1, bound=True)
        await community.settle(choose)
        for act in schedule:
            if act[0] == "settle":
                await community.settle(choose)
            elif act[0] == "crash":
                await turns.crash(dice.randrange)
            elif act[0] == "race":
                await _race(community, turns, act, dice)
            else:
                _do(community, act)
            for _ in range(dice.randrange(dice.choice(MOST_STEPS))):
                await turns.step(choose)
        await community.settle(choose)
        community.let_leave()
        await community.settle(choose)
    finally:
        community.redis.close()
    return steps


async def _race(community: Community, turns: Turns, act: Act, dice: Random) -> None:
    """Something begins, and in its midst it is overtaken by something else, with all that this leads to."""
    _, one, other = act
    truth = community.truth
    pushed = sorted({post.author for post in truth.posts.values()} - truth.index.keys() - {one})
    # Mostly somebody whose posts are at stake.
    somebody = dice.choice(pushed) if pushed and dice.random() < 0.8 else PEOPLE[other % len(PEOPLE)]
    overtaken, overtaking = dice.choice(RACES)
    order = dice.choice((_first, _last, dice.randrange))
    await community.rest(order)
    await _prepare(community, overtaken, one, somebody)
    _begin(community, overtaken, one, somebody)
    for _ in range(dice.randrange(OVERTAKEN_STEPS)):
        await turns.step(order)
    if overtaking == "crash":
        await turns.crash(dice.randrange)
    else:
        _begin(community, overtaking, one, somebody)
    for _ in range(OVERTAKING_STEPS):
        await turns.step(_last)
    await community.rest(_first)


async def _prepare(community: Community, kind: str, one: int, somebody: int) -> None:
    """Let something be at stake."""
    if kind == "leave":
        await community.shrink(somebody, _first)
    elif kind in {"rebuild", "unfollow"}:
        # Whom a rebuild does not know yet, and whom an unfollow takes out of a timeline that is there.
        community.tie(Tie.FOLLOW, one, somebody, bound=kind == "unfollow")
        await community.rest(_first)
        community.look(one, 2)
        await community.rest(_first)


def _first(_waiting: int) -> int:
    return 0


def _last(waiting: int) -> int:
    return waiting - 1


def _begin(community: Community, kind: str, one: int, somebody: int) -> None:
    match kind:
        case "rebuild":
            community.lose(keys.timeline(one))
            community.look(one, 2)
        case "follow" | "mute":
            bound = (one, somebody) not in community.truth.ties[Tie(kind)]
            community.tie(Tie(kind), one, somebody, bound=bound, looks=False)
        case "unfollow":
            community.tie(Tie.FOLLOW, one, somebody, bound=False, looks=False)
        case "write":
            community.write(somebody, "In a race")
        case _:
            community.let_leave()


def _do(community: Community, act: Act) -> None:  # noqa: PLR0912 - as many as there are
    kind, one, other = act
    somebody = PEOPLE[other % len(PEOPLE)]
    match kind:
        case "write":
            community.write(one, f"Post {other}")
        case "look":
            community.look(one, 1 + other % 5)
        case "follow" | "mute" | "block":
            community.tie(Tie(kind), one, somebody, bound=True)
        case "unfollow" | "unmute" | "unblock":
            tie = Tie(kind.removeprefix("un"))
            mine = sorted(pair for pair in community.truth.ties[tie] if pair[0] == one) or [(one, somebody)]
            community.tie(tie, *mine[other % len(mine)], bound=False)
        case "edit":
            community.rewrite(other, f"Edit by {one}", one)
        case "delete":
            community.rewrite(other, None, one)
        case "suspend":
            community.judge(somebody, Standing.SUSPENDED, one)
        case "restore":
            community.judge(somebody, Standing.ACTIVE, one)
        case "close":
            community.judge(one, Standing.DELETED, somebody)
        case "lose":
            community.lose(PERSON_KEYS[other % len(PERSON_KEYS)](one))
        case "lose timeline":
            community.lose(keys.timeline(one))
        case "lose post":
            community.lose(*(keys.post(post) for post in [*community.truth.posts][-1 - other :]))
        case "lose all":
            community.redis.now(("FLUSHALL",))
        case "leave":
            community.let_leave()
        case "repeat":
            community.repeat(other)
        case "refresh":
            community.refresh()
        case "time":
            community.let_time_pass(other % 5 / 4)
        case "deaf" if community.is_deaf:
            community.hear_again()
        case _:
            community.is_deaf = True
