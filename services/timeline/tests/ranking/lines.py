"""Posts to rank, as short words: `a b~ C a-` are posts of a, b, C and a, the best first.

A letter is an author, a capital one a head account. After it stand `*`: of a favourite, `~`: seen, `-`: hidden.
"""

from dataclasses import dataclass, replace

import numpy as np
from feedrank.candidates import Candidates
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from timeline_service.ranking.arrangement import Order, arrange
from timeline_service.ranking.rules import Rules

unhurried = settings(deadline=None, max_examples=100)
"""For properties: how long an example takes says nothing on a machine that is shared."""
NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Post:
    """A post to rank, equal to itself only."""

    author: int
    score: float = 0.0
    age_ms: int = 0
    topics: tuple[int, ...] = ()
    affinity: float = 0.0
    is_favourite: bool = False
    is_head: bool = False
    is_own: bool = False
    was_seen: bool = False
    was_hidden: bool = False


def candidates(posts: list[Post]) -> Candidates:
    """Posts as candidates; the first is the newest."""
    count = len(posts)
    none = np.zeros((count, 6), dtype=np.float32)
    no_times = np.zeros(count)
    topics = np.zeros((count, 4), dtype=np.uint32)
    for row, post in enumerate(posts):
        topics[row, : len(post.topics)] = post.topics
    return Candidates(
        post_ids=np.arange(count, 0, -1, dtype=np.int64),
        author_ids=np.array([post.author for post in posts], dtype=np.int64),
        created_at_ms=NOW_MS - np.array([post.age_ms for post in posts], dtype=np.int64),
        has_media=np.zeros(count, dtype=np.bool_),
        is_reply=np.zeros(count, dtype=np.bool_),
        topics=topics,
        sums=none,
        recent=none,
        recent_at=no_times,
        author_recent=none,
        author_recent_at=no_times,
        affinity=np.array([post.affinity for post in posts], dtype=np.float32),
        is_own=flags([post.is_own for post in posts]),
        is_favourite=flags([post.is_favourite for post in posts]),
        is_pulled=flags([post.is_head for post in posts]),
        was_seen=flags([post.was_seen for post in posts]),
        was_hidden=flags([post.was_hidden for post in posts]),
    )


def flags(values: list[bool]) -> NDArray[np.bool_]:
    """Flags as a column."""
    return np.array(values, dtype=np.bool_)


def scores(posts: list[Post]) -> NDArray[np.float64]:
    """The scores of posts, as a column."""
    return np.array([post.score for post in posts], dtype=np.float64)


def order_of(posts: list[Post], rules: Rules) -> Order:
    """Posts, arranged."""
    return arrange(candidates(posts), scores(posts), rules)


def ordered(posts: list[Post], rules: Rules) -> list[Post]:
    """Posts in their order, arranged."""
    return [posts[row] for row in order_of(posts, rules).rows.tolist()]


def written(line: str) -> list[Post]:
    """The posts of a line of words, with falling scores."""
    words = line.split()
    return [
        Post(
            author=ord(word[0]),
            score=float(len(words) - place),
            is_head=word[0].isupper(),
            is_favourite="*" in word,
            was_seen="~" in word,
            was_hidden="-" in word,
        )
        for place, word in enumerate(words)
    ]


def arranged(line: str, rules: Rules) -> str:
    """A line of words, arranged."""
    posts, words = written(line), line.split()
    return " ".join(words[posts.index(post)] for post in ordered(posts, rules))


_POSTS = st.builds(
    Post,
    author=st.integers(0, 3),
    score=st.integers(-20, 20).map(float),
    topics=st.lists(st.integers(1, 4), max_size=4).map(tuple),
    was_seen=st.booleans(),
    was_hidden=st.sampled_from([False, False, False, True]),
)
_AUTHORS = st.tuples(st.integers(-5, 15), st.booleans(), st.booleans())


@st.composite
def lines(draw: st.DrawFn) -> list[Post]:
    """Up to 10 posts of few authors, newest first, with some equal scores."""
    count = draw(st.integers(0, 10))
    posts = draw(st.lists(_POSTS, min_size=count, max_size=count))
    ages = sorted(draw(st.lists(st.integers(0, 48), min_size=count, max_size=count)))
    authors = draw(st.lists(_AUTHORS, min_size=4, max_size=4))
    return [
        replace(
            post,
            age_ms=age * HOUR_MS,
            is_own=post.author == 0,
            affinity=float(authors[post.author][0]),
            is_favourite=authors[post.author][1],
            is_head=authors[post.author][2],
        )
        for post, age in zip(posts, ages, strict=True)
    ]
