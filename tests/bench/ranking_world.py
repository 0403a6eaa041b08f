"""A small world in which everybody's preferences are known: who follows whom, what is written, and what people do with it.

Viewers care for some topics and have bonds to some authors; authors and single posts are better or worse; some authors
are bait, which is liked at once and hidden soon after; celebrities write much and have few bonds. Looking goes on from
the top down and ends somewhere, attention falls on the way, and the second post of an author in one sitting tires.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from feedrank.signals import DWELL_SECONDS, PREDICTED
from numpy.typing import NDArray

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BEGIN_MS = 1_780_000_000_000
FIRST_VIEWER = 1_000_000
"""Authors and viewers are numbered from 0. An author's user id is that number + 1, a viewer's is larger by this."""

LIKE, REPLY, REPOST, DWELL, NEGATIVE = range(len(PREDICTED))

# How much each signal depends on what, as log odds.
BASE = np.array([-4.0, -6.0, -5.6, -1.6, -6.2])
OF_TASTE = np.array([1.1, 0.7, 0.9, 0.9, -0.8])
OF_QUALITY = np.array([0.9, 0.4, 1.1, 0.7, -0.4])
OF_BOND = np.array([1.0, 1.8, 0.6, 0.6, -0.6])
OF_MEDIA = np.array([0.3, -0.2, 0.2, 0.5, 0.0])
OF_REPLY = np.array([-0.5, 0.8, -1.0, -0.2, 0.1])
OF_BAIT = np.array([0.8, -0.2, 0.4, -0.9, 2.2])
OF_AGE = np.array([-0.35, -0.6, -0.45, -0.15, 0.05])
OF_SECOND_SIGHT = np.array([-2.0, -1.5, -2.0, -1.5, -0.5])
OF_REPEATED_AUTHOR = np.array([-0.5, -0.4, -0.5, -0.35, 0.5])
OF_POSITION = np.array([-0.015, -0.015, -0.015, -0.015, 0.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large a world is."""

    viewers: int = 220
    authors: int = 300
    celebrities: int = 12
    followees: int = 60
    """On average."""
    topics: int = 24
    posts_a_day: float = 3.0
    """Of an author, on average; celebrities write thrice as many."""
    sittings_a_day: float = 2.5
    """Of a viewer, on average."""
    days: int = 12


class World:
    """Everything that is so before anybody looks at anything. The same seed makes the same world."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self._chance = np.random.default_rng(seed)
        self._draw_people()
        self._draw_posts()

    def _draw_people(self) -> None:
        size, chance = self.size, self._chance
        self.celebrity = np.arange(size.authors) < size.celebrities
        self.bait = (chance.random(size.authors) < 0.12) & ~self.celebrity
        self.quality = chance.normal(0, 0.8, size.authors) + 0.4 * self.celebrity
        self.taste = chance.normal(0, 1.0, (size.viewers, size.topics))
        self.subjects = chance.integers(0, size.topics, (size.authors, 3))
        match: NDArray[np.float64] = self.taste[:, self.subjects].mean(axis=2)
        appeal: NDArray[np.float64] = 0.8 * match + 2.0 * self.celebrity + chance.gumbel(size=match.shape)
        many = np.clip(chance.lognormal(np.log(size.followees), 0.4, size.viewers), 8, size.authors // 2).astype(int)
        places: NDArray[np.intp] = np.argsort(np.argsort(-appeal, axis=1), axis=1)
        self.follows = places < many[:, None]
        bonded: NDArray[np.bool_] = self.follows & ~self.celebrity & (chance.random(match.shape) < 0.12)
        self.bond = np.where(bonded, chance.gamma(4.0, 0.4, match.shape), 0.0)
        self.favourite: NDArray[np.bool_] = bonded & (self.bond > 2.0) & (chance.random(match.shape) < 0.5)

    def _draw_posts(self) -> None:
        size, chance = self.size, self._chance
        rate = chance.lognormal(np.log(size.posts_a_day), 0.6, size.authors) * np.where(self.celebrity, 3, 1)
        author = np.repeat(np.arange(size.authors), chance.poisson(rate * size.days))
        at_ms = BEGIN_MS + (chance.random(len(author)) * size.days * DAY_MS).astype(np.int64)
        order = np.argsort(at_ms, kind="stable")
        self.post_author, self.post_at_ms = author[order], at_ms[order]
        count = len(order)
        chosen = chance.integers(0, 3, count)
        self.post_topic = self.subjects[self.post_author, chosen]
        self.post_media = chance.random(count) < 0.4
        self.post_reply = chance.random(count) < 0.15
        self.post_quality = self.quality[self.post_author] + chance.normal(0, 0.7, count)

    @cached_property
    def sittings(self) -> NDArray[np.int64]:
        """(m, 2): when somebody looks, in Unix milliseconds, and who, in the order of time."""
        size, chance = self.size, self._chance
        viewer = np.repeat(np.arange(size.viewers), chance.poisson(size.sittings_a_day * size.days, size.viewers))
        at_ms = BEGIN_MS + (chance.random(len(viewer)) * size.days * DAY_MS).astype(np.int64)
        order = np.argsort(at_ms, kind="stable")
        return np.column_stack([at_ms[order], viewer[order]])

    def followed_posts(self, viewer: int, at_ms: int, most: int) -> NDArray[np.intp]:
        """The newest posts of those whom a viewer follows, newest first."""
        posts = self._posts_of_followees[viewer]
        end = int(np.searchsorted(posts, np.searchsorted(self.post_at_ms, at_ms)))
        return posts[max(0, end - most) : end][::-1]

    @cached_property
    def _posts_of_followees(self) -> list[NDArray[np.intp]]:
        return [np.flatnonzero(self.follows[viewer, self.post_author]) for viewer in range(self.size.viewers)]

    def log_odds(
        self, viewer: int, posts: NDArray[np.intp], at_ms: int, seen: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """(n, PREDICTED): of what a viewer does with posts when they are the only ones to look at."""
        author = self.post_author[posts]
        hours = (at_ms - self.post_at_ms[posts]) / HOUR_MS
        parts: tuple[tuple[NDArray[Any], NDArray[np.float64]], ...] = (
            (self.taste[viewer, self.post_topic[posts]], OF_TASTE),
            (self.post_quality[posts], OF_QUALITY),
            (self.bond[viewer, author], OF_BOND),
            (self.post_media[posts], OF_MEDIA),
            # What is said to others is of interest to friends alone.
            (self.post_reply[posts] & (self.bond[viewer, author] == 0), OF_REPLY - np.abs(OF_REPLY)),
            (self.post_reply[posts], OF_REPLY),
            (self.bait[author], OF_BAIT),
            (np.log1p(hours), OF_AGE),
            (seen, OF_SECOND_SIGHT),
        )
        return BASE + sum(np.multiply.outer(np.asarray(value, np.float64), weight) for value, weight in parts)

    def looked_at(
        self, viewer: int, order: NDArray[np.intp], at_ms: int, seen: NDArray[np.bool_], chance: np.random.Generator
    ) -> "Look":
        """What a viewer does with the beginning of an order of posts, `seen` telling which of them for another time."""
        depth = min(len(order), 6 + int(chance.exponential(14.0)))
        posts = order[:depth]
        repeated = _times_before(self.post_author[posts])
        odds = self.log_odds(viewer, posts, at_ms, seen[:depth])
        odds += np.multiply.outer(np.minimum(repeated, 4), OF_REPEATED_AUTHOR)
        odds += np.multiply.outer(np.arange(depth), OF_POSITION)
        probabilities = probability(odds)
        done = chance.random(odds.shape) < probabilities
        seconds = np.where(
            done[:, DWELL], DWELL_SECONDS + chance.exponential(6.0, depth), chance.uniform(0.3, DWELL_SECONDS, depth)
        )
        return Look(posts=posts, done=done, probabilities=probabilities, dwell_ms=(seconds * 1_000).astype(np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What became of one sitting, from the top down."""

    posts: NDArray[np.intp]
    done: NDArray[np.bool_]
    """(k, PREDICTED)."""
    probabilities: NDArray[np.float64]
    """(k, PREDICTED): how likely it was."""
    dwell_ms: NDArray[np.int64]


def probability(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of log odds."""
    return 1 / (1 + np.exp(-log_odds))


def _times_before(values: NDArray[np.intp]) -> NDArray[np.intp]:
    return np.tril(values[:, None] == values[None, :], -1).sum(axis=1)
