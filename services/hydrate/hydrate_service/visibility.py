"""What is withheld from a viewer of posts, and why: rules, small and independent of one another.

A read goes from ids over what is known of them (`hydration`) to these rules, which alone decide on what is shown. They are
asked in a fixed order, and the first that has something against a post gives the reason: it does not exist; its author does
not; its author is suspended; one of the two blocks the other; the viewer mutes its author, and looks at a feed. A rule that
would have to know what cannot be known now says so, which keeps the post from being shown too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias


class Surface(Enum):
    """Where posts are shown."""

    POST = "post"
    """By themselves, or on their author's page."""
    FEED = "feed"


class Withheld(Enum):
    """The post is not shown to this viewer until somebody changes that, and this is why; in the order of the rules."""

    NOT_FOUND = "it has been deleted, or never was"
    AUTHOR_NOT_FOUND = "its author does not exist"
    AUTHOR_SUSPENDED = "its author is suspended"
    BLOCKED = "its author blocks the viewer, or the viewer its author"
    MUTED = "the viewer mutes its author, and looks at a feed"


class Unavailable(NamedTuple):
    """Whether the post may be shown is not known now."""

    dependency: str
    """Who did not answer: `post` or `graph`."""


class Author(NamedTuple):
    """Somebody who writes, as far as their posts are concerned."""

    id: int
    name: str
    suspended: bool = False


class Hides(NamedTuple):
    """Whose posts are withheld from a viewer."""

    blocked: Collection[int]
    """Whom the viewer blocks, and who blocks the viewer."""
    muted: Collection[int]
    """Whom the viewer mutes."""
    more_block: bool
    """Whether there may be more blocks than these."""


NOTHING_HIDDEN = Hides((), (), more_block=False)


class Viewing(NamedTuple):
    """Who looks, and where."""

    viewer_id: int
    """0: nobody in particular, from whom nothing is hidden."""
    surface: Surface
    hides: Hides | None
    """None: not known now."""


Objection: TypeAlias = Withheld | Unavailable
Rule: TypeAlias = Callable[[Author, Viewing], Objection | None]
"""What there is against showing posts of an author; None: nothing."""

_UNKNOWN = Unavailable("graph")


def suspended(author: Author, viewing: Viewing) -> Objection | None:
    """Nobody sees what a suspended author wrote, not even the author."""
    return Withheld.AUTHOR_SUSPENDED if author.suspended else None


def blocked(author: Author, viewing: Viewing) -> Objection | None:
    """Where one of the two blocks the other, neither sees what the other wrote."""
    if author.id == viewing.viewer_id:
        return None
    if viewing.hides is None:
        return _UNKNOWN
    if author.id in viewing.hides.blocked:
        return Withheld.BLOCKED
    return _UNKNOWN if viewing.hides.more_block else None


def muted(author: Author, viewing: Viewing) -> Objection | None:
    """Whoever mutes an author does not meet them in feeds, and still sees them elsewhere."""
    if author.id == viewing.viewer_id or viewing.surface is not Surface.FEED:
        return None
    if viewing.hides is None:
        return _UNKNOWN
    return Withheld.MUTED if author.id in viewing.hides.muted else None


RULES: Sequence[Rule] = (suspended, blocked, muted)
"""In the order in which they are asked."""
_WITHOUT_HIDES: Sequence[Rule] = (suspended,)


def judged(
    author_ids: Iterable[int], authors: Mapping[int, Author | None], viewing: Viewing
) -> dict[int, Author | Objection]:
    """For each author the author, if their posts may be shown, or what there is against that.

    `authors` is what is known of authors, None: there is none. Of one who is missing nothing is known.
    """
    # From most viewers nobody is hidden, and two rules of three need not be asked about twenty authors.
    rules = RULES if viewing.hides is None or any(viewing.hides) else _WITHOUT_HIDES
    return {author_id: _judged(author_id, authors, viewing, rules) for author_id in author_ids}


def _judged(
    author_id: int, authors: Mapping[int, Author | None], viewing: Viewing, rules: Sequence[Rule]
) -> Author | Objection:
    if author_id not in authors:
        return _UNKNOWN
    author = authors[author_id]
    if author is None:
        return Withheld.AUTHOR_NOT_FOUND
    for rule in rules:
        if (objection := rule(author, viewing)) is not None:
            return objection
    return author
