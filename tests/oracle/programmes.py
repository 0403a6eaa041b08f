"""Random programmes, written by Hypothesis rule by rule, and run once they are written."""

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from limits import LENGTH, THRESHOLD
from outages import MORTAL

from tests.oracle.fate import FREEZABLE
from tests.oracle.steps import (
    PERSON_KEYS,
    POST_KEY,
    Act,
    Alone,
    Bind,
    Blow,
    DaysPass,
    Delete,
    Edit,
    Everybody,
    Evict,
    Fate,
    FollowMany,
    ForgetEverything,
    ForgetPerson,
    GoOn,
    Judge,
    KeepCursor,
    Look,
    Loose,
    LoseBroker,
    Move,
    Race,
    Replay,
    Set,
    Settle,
    Standing,
    Step,
    Tie,
    Together,
    Write,
    WriteMany,
    without_conflicts,
)

# Some of whom are followed by enough others to be pulled, and some are not.
PEOPLE = THRESHOLD + 4
MOST_DELETED = 2
"""How many accounts a programme deletes at most, so that somebody is left."""
ROUNDS = 5

# Something visible is always in it: what shows nothing is no post.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).map("a{}".format)
PERSON = st.integers(0, PEOPLE - 1)
PAIR = st.tuples(PERSON, st.integers(1, PEOPLE - 1)).map(lambda pair: (pair[0], sum(pair) % PEOPLE))
WHICH = st.integers(0, 40)
"""Which of those that there are."""
OTHERS = st.integers(0, 2**PEOPLE - 1)
"""Some people, a bit for each."""
EYES = st.one_of(st.just(0), st.just(0), OTHERS)
LIMIT = st.integers(1, 7)
TENTHS = st.integers(1, 15)

FATES = st.one_of(
    st.builds(Fate, st.sampled_from(MORTAL), st.sampled_from([Blow.KILL, Blow.STOP]), st.integers(0, 5)),
    st.builds(Fate, st.sampled_from(FREEZABLE), st.just(Blow.FREEZE), TENTHS),
)
ORDEALS: st.SearchStrategy[Step] = st.one_of(
    FATES,
    FATES,
    FATES,
    st.builds(Replay),
    st.builds(LoseBroker),
    st.builds(Set, st.just("FEED_CELEBRITY_THRESHOLD"), st.integers(2, PEOPLE)),
    st.builds(Set, st.just("FEED_TIMELINE_LENGTH"), st.integers(2, 2 * LENGTH)),
)


class Plan(NamedTuple):
    """A move that is meant, before it is known of which post."""

    kind: str
    pair: tuple[int, int]
    which: int
    text: str


PLANS = st.builds(
    Plan,
    # What hides something is worth more than what adds to it.
    st.sampled_from(
        [
            *("write", "follow", "follow many", "unfollow", "unfollow", "mute", "unmute", "block", "unblock"),
            *("edit", "delete", "suspend", "restore", "evict", "evict", "evict post", "look", "look"),
        ]
    ),
    PAIR,
    WHICH,
    TEXT,
)
RACES = st.sampled_from(["follow", "mute", "block", "edit", "suspend", "write"])


class Programme(RuleBasedStateMachine):
    """Writes a programme. Nothing happens before it is complete, so it depends on the seed alone."""

    run: ClassVar[Callable[[Sequence[Step]], None]]

    def __init__(self) -> None:
        super().__init__()
        self._steps: list[Step] = []
        self._authors: list[int] = []
        """By post."""
        self._ties: dict[Tie, list[tuple[int, int]]] = {tie: [] for tie in Tie}
        self._suspended: list[int] = []
        self._deleted: set[int] = set()

    def teardown(self) -> None:
        type(self).run(self._steps)

    # --- how a programme begins --------------------------------------------------------------------------------------

    @initialize(
        follows=st.lists(OTHERS, min_size=PEOPLE, max_size=PEOPLE),
        posts=st.lists(st.integers(0, 3), min_size=PEOPLE, max_size=PEOPLE),
        prolific=st.one_of(st.none(), PERSON),
    )
    def some_follow_and_post(self, follows: Sequence[int], posts: Sequence[int], prolific: int | None) -> None:
        for person, others in enumerate(follows):
            if chosen := tuple(other for other in _chosen(others) if other != person):
                self._alone(self._follow_many(person, chosen))
        for person, count in enumerate(posts):
            for _ in range(count):
                self._alone(self._write(person, f"Post {len(self._authors)}"))
        if prolific is not None:
            self._alone(self._write_many(prolific))
        self._steps.append(Everybody(5))

    # --- what people do ----------------------------------------------------------------------------------------------

    @rule(person=PERSON, content=TEXT, eyes=EYES)
    def write(self, person: int, content: str, eyes: int) -> None:
        self._alone(self._write(person, content), eyes)

    @rule(person=PERSON, eyes=EYES)
    def write_more_than_a_timeline_holds(self, person: int, eyes: int) -> None:
        self._alone(self._write_many(person), eyes)

    @rule(which=WHICH, content=TEXT, eyes=EYES)
    def edit(self, which: int, content: str, eyes: int) -> None:
        if self._authors:
            self._alone(self._edit(which, content), eyes)

    @rule(which=WHICH, eyes=EYES)
    def delete(self, which: int, eyes: int) -> None:
        if self._authors:
            self._alone(self._delete(which), eyes)

    @rule(pair=PAIR, eyes=EYES)
    def follow(self, pair: tuple[int, int], eyes: int) -> None:
        self._alone(self._bind(Tie.FOLLOW, pair), eyes)

    @rule(which=WHICH, pair=PAIR, eyes=EYES)
    def unfollow(self, which: int, pair: tuple[int, int], eyes: int) -> None:
        self._alone(self._loose(Tie.FOLLOW, which, pair), eyes)

    @rule(pair=PAIR, tie=st.sampled_from([Tie.MUTE, Tie.BLOCK]), eyes=EYES)
    def mute_or_block(self, pair: tuple[int, int], tie: Tie, eyes: int) -> None:
        self._alone(self._bind(tie, pair), eyes)

    @rule(which=WHICH, pair=PAIR, tie=st.sampled_from([Tie.MUTE, Tie.BLOCK]), eyes=EYES)
    def unmute_or_unblock(self, which: int, pair: tuple[int, int], tie: Tie, eyes: int) -> None:
        self._alone(self._loose(tie, which, pair), eyes)

    @rule(person=PERSON, others=OTHERS)
    def follow_many(self, person: int, others: int) -> None:
        if chosen := tuple(other for other in _chosen(others) if other != person):
            self._alone(self._follow_many(person, chosen))

    @rule(celebrity=PERSON)
    def be_followed_by_everybody(self, celebrity: int) -> None:
        self._be_followed(celebrity, PEOPLE - 1)

    @rule(celebrity=PERSON, posts=st.integers(1, 3), less=st.integers(1, 3), eyes=EYES)
    def grow_and_shrink(self, celebrity: int, posts: int, less: int, eyes: int) -> None:
        """Somebody is pulled, posts, and loses followers, until they are pushed again."""
        self._be_followed(celebrity, THRESHOLD)
        for _ in range(posts):
            self._alone(self._write(celebrity, f"Post {len(self._authors)}"))
        for follower in [one for one, other in self._ties[Tie.FOLLOW] if other == celebrity][THRESHOLD - less :]:
            self._alone(self._loose_pair(Tie.FOLLOW, (follower, celebrity)), eyes)

    # --- what operators do ---------------------------------------------------------------------------------------------

    @rule(person=PERSON, eyes=OTHERS)
    def suspend(self, person: int, eyes: int) -> None:
        self._alone(self._suspend(person), eyes)

    @rule(which=WHICH, eyes=OTHERS)
    def restore(self, which: int, eyes: int) -> None:
        if self._suspended:
            self._alone(self._restore(which), eyes)

    @rule(person=PERSON, eyes=OTHERS)
    def delete_account(self, person: int, eyes: int) -> None:
        if len(self._deleted | {person}) <= MOST_DELETED:
            self._deleted.add(person)
            self._alone(Judge(person, Standing.DELETED), eyes)

    # --- several at once -----------------------------------------------------------------------------------------------

    @rule(
        plans=st.lists(st.lists(PLANS, min_size=1, max_size=4), min_size=2, max_size=5),
        fate=st.one_of(st.none(), st.none(), st.none(), FATES),
    )
    def act_together(self, plans: Sequence[Sequence[Plan]], fate: Fate | None) -> None:
        self._together(plans, fate)

    @rule(plans=st.lists(st.lists(PLANS, min_size=1, max_size=4), min_size=2, max_size=5))
    def act_together_again(self, plans: Sequence[Sequence[Plan]]) -> None:
        """The same rule once more: it is worth more than others."""
        self._together(plans, None)

    def _together(self, plans: Sequence[Sequence[Plan]], fate: Fate | None) -> None:
        moves = [[move for plan in mine if (move := self._move(plan)) is not None] for mine in plans]
        if threads := without_conflicts(moves):
            self._steps.append(Together(threads, fate))

    @rule(race=RACES, pair=PAIR, which=WHICH)
    def race(self, race: str, pair: tuple[int, int], which: int) -> None:
        """What somebody reads is evicted, read and changed at once, several times."""
        self._race(race, pair, which)

    @rule(race=RACES, pair=PAIR, which=WHICH)
    def race_again(self, race: str, pair: tuple[int, int], which: int) -> None:
        """So is this."""
        self._race(race, pair, which)

    # --- what befalls the mesh -----------------------------------------------------------------------------------------

    @rule(forgotten=st.one_of(st.tuples(st.sampled_from(PERSON_KEYS), PERSON), WHICH, PERSON.map(ForgetPerson)))
    def forget_something(self, forgotten: tuple[str, int] | int | ForgetPerson) -> None:
        match forgotten:
            case ForgetPerson():
                self._steps.append(forgotten)
            case (kind, person):
                self._steps.append(Evict(kind, person))
            case which if self._authors:
                self._steps.append(Evict(POST_KEY, self._post(which)))
            case _:
                pass

    @rule(forgetting=st.one_of(st.just(ForgetEverything()), st.builds(DaysPass, st.integers(1, 40))))
    def forget_everything(self, forgetting: Step) -> None:
        self._steps.append(forgetting)

    @rule(ordeal=ORDEALS)
    def befall(self, ordeal: Step) -> None:
        self._steps.append(ordeal)

    # --- what feeds show -----------------------------------------------------------------------------------------------

    @rule(limit=LIMIT)
    def everybody_reads(self, limit: int) -> None:
        self._steps.append(Everybody(limit))

    @rule(limit=LIMIT)
    def settle(self, limit: int) -> None:
        self._steps.append(Settle(limit))

    @rule(person=PERSON, limit=st.integers(1, 3))
    def keep_cursor(self, person: int, limit: int) -> None:
        self._steps.append(KeepCursor(person, limit))

    @rule(which=WHICH, limit=LIMIT)
    def go_on(self, which: int, limit: int) -> None:
        self._steps.append(GoOn(which, limit))

    # --- acts ----------------------------------------------------------------------------------------------------------

    def _alone(self, act: Act, eyes: int = 0) -> None:
        self._steps.append(Alone(act, _chosen(eyes)))

    def _move(self, plan: Plan) -> Move | None:  # noqa: PLR0911 - as many kinds of moves as there are
        match plan.kind:
            case "write":
                return self._write(plan.pair[0], plan.text)
            case "follow" | "mute" | "block":
                return self._bind(Tie(plan.kind), plan.pair)
            case "unfollow" | "unmute" | "unblock":
                return self._loose(Tie(plan.kind.removeprefix("un")), plan.which, plan.pair)
            case "follow many":
                return self._follow_many(plan.pair[0], plan.pair[1:])
            case "suspend":
                return self._suspend(plan.pair[0])
            case "restore":
                return self._restore(plan.which) if self._suspended else None
            case "evict":
                return Evict(PERSON_KEYS[plan.which % len(PERSON_KEYS)], plan.pair[0])
            case "look":
                return Look(plan.pair[0], 1 + plan.which)
            case _ if not self._authors:
                return None
            case "edit":
                return self._edit(plan.which, plan.text)
            case "delete":
                return self._delete(plan.which)
            case _:
                return Evict(POST_KEY, self._post(plan.which))

    def _write(self, person: int, content: str) -> Write:
        self._authors.append(person)
        return Write(person, len(self._authors) - 1, content)

    def _write_many(self, person: int) -> WriteMany:
        first = len(self._authors)
        self._authors += [person] * (LENGTH + 1)
        return WriteMany(person, range(first, len(self._authors)))

    def _post(self, which: int) -> int:
        """One of the posts, mostly a new one."""
        return len(self._authors) - 1 - which % len(self._authors)

    def _edit(self, which: int, content: str) -> Edit:
        post = self._post(which)
        return Edit(self._authors[post], post, content)

    def _delete(self, which: int) -> Delete:
        post = self._post(which)
        return Delete(self._authors[post], post)

    def _bind(self, tie: Tie, pair: tuple[int, int]) -> Bind:
        if pair not in self._ties[tie]:
            self._ties[tie].append(pair)
        if tie is Tie.BLOCK:
            self._ties[Tie.FOLLOW] = [follow for follow in self._ties[Tie.FOLLOW] if set(follow) != set(pair)]
        return Bind(pair[0], tie, pair[1])

    def _loose(self, tie: Tie, which: int, pair: tuple[int, int]) -> Loose:
        """Undo one of the ties that there are; if there is none, one that there is not."""
        ties = self._ties[tie]
        return self._loose_pair(tie, ties[which % len(ties)] if ties else pair)

    def _loose_pair(self, tie: Tie, pair: tuple[int, int]) -> Loose:
        if pair in self._ties[tie]:
            self._ties[tie].remove(pair)
        return Loose(pair[0], tie, pair[1])

    def _follow_many(self, person: int, others: tuple[int, ...]) -> FollowMany:
        for other in others:
            self._bind(Tie.FOLLOW, (person, other))
        return FollowMany(person, others)

    def _be_followed(self, celebrity: int, followers: int) -> None:
        for one in range(1, followers + 1):
            self._alone(self._bind(Tie.FOLLOW, ((celebrity + one) % PEOPLE, celebrity)))

    def _suspend(self, person: int) -> Judge:
        self._suspended.append(person)
        return Judge(person, Standing.SUSPENDED)

    def _restore(self, which: int) -> Judge:
        return Judge(self._suspended.pop(which % len(self._suspended)), Standing.ACTIVE)

    def _race(self, race: str, pair: tuple[int, int], which: int) -> None:
        one, other = pair
        rounds: list[tuple[Act, tuple[Evict, ...]]] = []
        reader = one
        for number in range(ROUNDS):
            match race:
                case "follow":
                    act, evicted = self._toggle(Tie.FOLLOW, pair), ("ctx", "tl")[: 1 + number % 2]
                case "mute":
                    act, evicted = self._toggle(Tie.MUTE, pair), ("ctx", "hidden")
                case "block":
                    act, evicted = self._toggle(Tie.BLOCK, pair), ("hidden", "ctx")
                    reader = pair[which % 2]
                case "suspend":
                    act, evicted = Judge(other, (Standing.SUSPENDED, Standing.ACTIVE)[number % 2]), ("user",)
                case "edit" if self._authors:
                    act, evicted = self._edit(which, f"Race {number}"), ("post",)
                case _:
                    act, evicted = self._write(one, f"Race {number}"), ("own", "recents")
            rounds.append((act, tuple(self._evicted(kind, act, reader) for kind in evicted)))
        if race == "suspend":
            rounds.append((Judge(other, Standing.ACTIVE), ()))
        self._steps.append(Race(tuple(rounds), reader))

    def _evicted(self, kind: str, act: Act, reader: int) -> Evict:
        match kind, act:
            case "post", Edit(_, post, _):
                return Evict(POST_KEY, post)
            case "user" | "own" | "recents", _:
                return Evict(kind, act.person)
            case _:
                return Evict(kind, reader)

    def _toggle(self, tie: Tie, pair: tuple[int, int]) -> Bind | Loose:
        return self._loose_pair(tie, pair) if pair in self._ties[tie] else self._bind(tie, pair)


def _chosen(people: int) -> tuple[int, ...]:
    """The people whose bits are set."""
    return tuple(person for person in range(PEOPLE) if people >> person & 1)


def is_dull(steps: Iterable[Step]) -> bool:
    """Whether a programme is not worth its time, such as the simplest that there is."""
    return len({type(step.act if isinstance(step, Alone) else step) for step in steps}) < 6
