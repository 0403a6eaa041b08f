"""What the place rules promise, said once more and without regard to time: who may stand where, place by place."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from timeline_service.ranking.rules import Rules

from .lines import Post


def guaranteed_of(line: Sequence[Post], rules: Rules) -> list[Post]:
    """Who of a line, the best first, is guaranteed a place."""
    rule = rules.guaranteed_places
    if rule is None:
        return []
    best: dict[int, Post] = {}
    for post in line:
        if not (post.was_seen or post.was_hidden or post.is_own):
            best.setdefault(post.author, post)
    favourites = [post for post in best.values() if post.is_favourite]
    ties = [post for post in best.values() if not post.is_favourite and post.affinity > rule.affinity]
    strongest = sorted(ties, key=lambda post: -post.affinity)[: rule.strong_ties]
    return [*favourites, *(post for post in ties if post in strongest)][: rule.within]


@dataclass(frozen=True)
class Kept:
    """Which rules a post keeps at a place; the first that differs decides."""

    hidden: bool
    guaranteed_places: bool
    runs: bool
    head_share: bool

    @property
    def rank(self) -> tuple[bool, bool, bool, bool]:
        """The better, the higher."""
        return self.hidden, self.guaranteed_places, self.runs, self.head_share


def kept(above: Sequence[Post], post: Post, waiting: Sequence[Post], guaranteed: Sequence[Post], rules: Rules) -> Kept:
    """Which rules a post keeps below `above`, while all of `waiting`, it included, have no place yet."""
    below = [other for other in waiting if other is not post]
    promised = [other for other in below if other in guaranteed]
    left = rules.guaranteed_places.within - len(above) - 1 if rules.guaranteed_places else 0
    return Kept(
        hidden=not (rules.hidden and post.was_hidden) or all(other.was_hidden for other in below),
        guaranteed_places=len(promised) <= max(left, 0),
        runs=_keeps_runs([*above, post], promised if len(promised) == left else [], rules),
        head_share=_keeps_share([*above, post], [] if post in guaranteed else promised, rules),
    )


def _keeps_runs(placed: Sequence[Post], due: Sequence[Post], rules: Rules) -> bool:
    """Whether the last post placed makes no run too long, nor must one of those that are due after it."""
    if rules.runs is None:
        return True
    authors, most = [post.author for post in placed], rules.runs.most
    return not _ends_with_run(authors, most) and any(
        not any(_ends_with_run([*authors, *after[:count]], most) for count in range(1, len(after) + 1))
        for after in permutations(post.author for post in due)
    )


def _ends_with_run(authors: Sequence[int], most: int) -> bool:
    """Whether the last author has more than `most` posts in a row."""
    return len(authors) > most and len(set(authors[-most - 1 :])) == 1


def _keeps_share(placed: Sequence[Post], promised: Sequence[Post], rules: Rules) -> bool:
    """Whether the window that ends with the last post placed has room for it, and for what has been promised."""
    if not rules.head_share or not placed[-1].is_head:
        return True
    heads = sum(post.is_head for post in placed[-rules.head_share.window :])
    return heads + sum(post.is_head for post in promised) <= rules.head_share.most


@dataclass(frozen=True)
class Reading:
    """A line, arranged place by place, and who was passed over for which rule."""

    posts: list[Post]
    passed_for_runs: list[Post]
    passed_for_share: list[Post]


def read(line: Sequence[Post], rules: Rules) -> Reading:
    """Give each place to the first in the line, the best first, that keeps the most important rules there."""
    guaranteed = guaranteed_of(line, rules)
    waiting, reading = list(line), Reading([], [], [])
    while waiting:
        keeping = [kept(reading.posts, post, waiting, guaranteed, rules) for post in waiting]
        place = max(range(len(waiting)), key=lambda place: keeping[place].rank)
        chosen = keeping[place]
        for post, its in list(zip(waiting, keeping, strict=True))[:place]:
            if its.hidden:
                reading.passed_for_runs.extend([post] if chosen.runs and not its.runs else [])
                reading.passed_for_share.extend([post] if chosen.head_share and not its.head_share else [])
        reading.posts.append(waiting.pop(place))
    return reading
