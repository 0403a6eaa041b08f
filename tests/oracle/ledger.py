"""The test's own record of what was acknowledged, and what follows from it for what may and what must be shown.

It is never read back from the product. Each fact has a value, and while somebody is changing it perhaps another one
already: so whoever reads meanwhile may see either. Nobody reads at a moment: what was true when they began, what became
true meanwhile, and what was about to become true, all of it may have been seen.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from tests.oracle.steps import Standing, Tie

Fact: TypeAlias = tuple[Any, ...]
"""`(Tie, person, other)`: whether it is bound; `("standing", person)`; `("text", post)`: a Text, or None where
there is no such post.

People and posts are meant by their ids.
"""


def standing(person: int) -> Fact:
    """How somebody's account stands."""
    return ("standing", person)


def text(post: int) -> Fact:
    """What a post says."""
    return ("text", post)


class Written(NamedTuple):
    """A post that was acknowledged once, whatever became of it."""

    id: int
    author: int


class Text(NamedTuple):
    """What a post says, and whether it has ever said something else."""

    content: str
    edited: bool


class Change:
    """A change under way."""

    def __init__(self, values: Mapping[Fact, Any]) -> None:
        self.values = values
        self.made = True

    def refuse(self) -> None:
        """It was not made."""
        self.made = False


@dataclass(frozen=True)
class Moment:
    """What was true, and what was about to become true, when somebody began to read."""

    values: Mapping[Fact, Any]
    coming: Sequence[tuple[Fact, Any]]
    place: int


@dataclass
class Ledger:
    """Everybody, what they wrote, and how they stand to one another."""

    people: list[int] = field(default_factory=list[int])
    posts: dict[int, Written] = field(default_factory=dict[int, Written])
    """By id."""
    certain: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By viewer: posts of others which their feed has shown when all was settled, and must not lose any more."""

    _values: dict[Fact, Any] = field(default_factory=dict[Fact, Any])
    _coming: list[tuple[Fact, Any]] = field(default_factory=list[tuple[Fact, Any]])
    _history: list[tuple[Fact, Any]] = field(default_factory=list[tuple[Fact, Any]])

    def value(self, fact: Fact) -> Any:
        """What is true now, as far as it was acknowledged."""
        return _value(self._values, fact)

    @contextmanager
    def changing(self, values: Mapping[Fact, Any]) -> Generator[Change]:
        """Facts change within the block, to values that are acknowledged at its end unless the change is refused."""
        change = Change(values)
        items = list(values.items())
        self._coming += items
        self._history += items
        for fact, value in items:
            self._doubt(fact, value)
        try:
            yield change
        finally:
            for item in items:
                self._coming.remove(item)
        if change.made:
            self._values.update(values)

    def is_changing(self, fact: Fact) -> bool:
        """Whether a change of it is under way."""
        return any(coming == fact for coming, _ in self._coming)

    def _doubt(self, fact: Fact, value: Any) -> None:
        """What leaves a feed comes back to it some time later, not at once."""
        if (fact[0] is Tie.FOLLOW and not value) or (fact[0] is Tie.MUTE and value):
            _, viewer, author = fact
            self.certain[viewer] -= {post.id for post in self.posts.values() if post.author == author}

    def write(self, post: int, author: int, content: str) -> None:
        """Note a post that was acknowledged."""
        self.posts[post] = Written(post, author)
        said = Text(content, edited=False)
        self._values[text(post)] = said
        self._history.append((text(post), said))

    # --- what may be seen --------------------------------------------------------------------------------------------

    def moment(self) -> Moment:
        """Now, for `since`."""
        return Moment(dict(self._values), list(self._coming), len(self._history))

    def since(self, moment: Moment) -> "Possible":
        """What may have been seen from a moment until now."""
        seen: dict[Fact, set[Any]] = {}
        for fact, value in (*moment.coming, *self._history[moment.place :]):
            seen.setdefault(fact, {_value(moment.values, fact)}).add(value)
        return Possible(self, moment.values, seen)

    def now(self) -> "Possible":
        """What may be seen by whoever looks while nobody acts."""
        return self.since(self.moment())

    def living(self) -> list[int]:
        """Those whose accounts are not deleted."""
        return [person for person in self.people if self.value(standing(person)) is not Standing.DELETED]

    def bound(self, tie: Tie, *, person: int | None = None, other: int | None = None) -> list[int]:
        """The living to whom a person has a tie, or who have one to another, ascending."""
        living = self.living()
        if person is not None:
            return sorted(one for one in living if one != person and self.value((tie, person, one)))
        return sorted(one for one in living if one != other and self.value((tie, one, other)))

    def feed(self, viewer: int) -> list[int]:
        """A viewer's home timeline, newest first, once the mesh has settled."""
        may = self.now()
        return sorted((post for post in self.posts if may.show(viewer, post, in_feed=True)), reverse=True)


class Possible:
    """All that may have been true for somebody who read."""

    def __init__(self, ledger: Ledger, values: Mapping[Fact, Any], seen: Mapping[Fact, set[Any]]) -> None:
        self._ledger = ledger
        self._values = values
        self._seen = seen

    def of(self, fact: Fact) -> set[Any]:
        """The values that a fact may have had."""
        return self._seen.get(fact) or {_value(self._values, fact)}

    def texts(self, post: int) -> set[Text]:
        """What a post may have said."""
        return {said for said in self.of(text(post)) if said is not None}

    # --- what may and what must be shown ------------------------------------------------------------------------------

    def show(self, viewer: int | None, post: int, *, in_feed: bool) -> bool:
        """Whether a post may be shown to a viewer, or, by None, to whoever does not say who they are."""
        return bool(self.texts(post)) and self.show_author(viewer, self._ledger.posts[post].author, in_feed=in_feed)

    def show_author(self, viewer: int | None, author: int, *, in_feed: bool) -> bool:
        """Whether anything that an author wrote may be shown to a viewer."""
        if Standing.ACTIVE not in self.of(standing(author)):
            return False
        if viewer is None or viewer == author:
            return True
        if in_feed:
            return True in self.of((Tie.FOLLOW, viewer, author)) and False in self.of((Tie.MUTE, viewer, author))
        return False in self.blocked(viewer, author)

    def has_to_show(self, viewer: int | None, posts: Iterable[int]) -> set[int]:
        """Those of the posts that have to be shown to a viewer, wherever they look for them."""
        return {
            post
            for post in posts
            if self._certainly_there(post)
            and (viewer is None or True not in self.blocked(viewer, self._ledger.posts[post].author))
        }

    def feed_has_to_show(self, viewer: int) -> set[int]:
        """All that a viewer's feed has to show: their own posts, and what it has shown when all was settled."""
        return {
            post.id
            for post in self._ledger.posts.values()
            if self._certainly_there(post.id)
            and (
                post.author == viewer or (post.id in self._ledger.certain[viewer] and self._feeds(viewer, post.author))
            )
        }

    def _feeds(self, viewer: int, author: int) -> bool:
        return self.of((Tie.FOLLOW, viewer, author)) == {True} and self.of((Tie.MUTE, viewer, author)) == {False}

    def _certainly_there(self, post: int) -> bool:
        author = self._ledger.posts[post].author
        return None not in self.of(text(post)) and self.of(standing(author)) == {Standing.ACTIVE}

    def blocked(self, one: int, other: int) -> set[bool]:
        """Whether either may have blocked the other."""
        if one == other:
            return {False}
        either = [self.of((Tie.BLOCK, one, other)), self.of((Tie.BLOCK, other, one))]
        if {True} in either:
            return {True}
        return {True, False} if any(True in values for values in either) else {False}

    def why(self, viewer: int | None, post: int) -> str:
        """All that decides on whether a post is shown to a viewer, for a person."""
        author = self._ledger.posts[post].author
        facts = [text(post), standing(author)]
        if viewer is not None:
            facts += [(tie, *pair) for tie in Tie for pair in ((viewer, author), (author, viewer))]
        return ", ".join(f"{' '.join(map(str, fact))}: {self.of(fact)}" for fact in facts)


def _value(values: Mapping[Fact, Any], fact: Fact) -> Any:
    if fact in values:
        return values[fact]
    match fact[0]:
        case "standing":
            return Standing.ACTIVE
        case "text":
            return None
        case _:
            return False
