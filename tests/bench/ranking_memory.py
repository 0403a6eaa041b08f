"""What a mesh would know of a simulated world at a time, and the log that it would have kept of it."""

from copy import deepcopy
from typing import Any

import numpy as np
from feedrank import dataset
from feedrank.candidates import Candidates
from feedrank.dataset import Log, in_time_order
from feedrank.features import AFFINITY_HALF_LIFE, AUTHOR_HALF_LIFE, POST_HALF_LIFE, faded
from feedrank.replay import AFFINITY_OF_DWELL, AFFINITY_OF_ENGAGEMENT, OBSERVED_OF_ENGAGEMENT
from feedrank.signals import DWELL as DWELL_SUM
from feedrank.signals import IMPRESSIONS, OBSERVED
from numpy.typing import NDArray

from tests.bench.ranking_world import DWELL, FIRST_VIEWER, LIKE, NEGATIVE, REPLY, REPOST, Look, World

KIND_OF_SIGNAL = {
    LIKE: dataset.LIKE,
    REPLY: dataset.REPLY,
    REPOST: dataset.REPOST,
    NEGATIVE: dataset.HIDE,
}


class Memory:
    """The features' sums, as `fanout` would have counted them, and everything that happened."""

    def __init__(self, world: World) -> None:
        posts, viewers, authors = len(world.post_author), world.size.viewers, world.size.authors
        self._world = world
        self._sums = np.zeros((posts, len(OBSERVED)))
        self._recent, self._recent_at = np.zeros((posts, len(OBSERVED))), np.zeros(posts)
        self._of_author, self._of_author_at = np.zeros((authors, len(OBSERVED))), np.zeros(authors)
        self._affinity, self._affinity_at = np.zeros((viewers, authors)), np.zeros(viewers)
        self._seen = np.zeros((viewers, posts), np.bool_)
        self._hidden = np.zeros((viewers, posts), np.bool_)
        self._topics = np.zeros((posts, 4), np.uint32)
        self._topics[:, 0] = world.post_topic + 1
        self._impressions: list[tuple[Any, ...]] = []
        self._engagements: list[tuple[Any, ...]] = []

    def copied(self) -> "Memory":
        """The same knowledge, to go on from in another way."""
        return deepcopy(self, {id(self._world): self._world})

    def has_seen(self, viewer: int, posts: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of some posts a viewer has seen."""
        return self._seen[viewer, posts]

    def candidates(self, viewer: int, posts: NDArray[np.intp], at_ms: int) -> Candidates:
        """Posts, newest first, as the ranked view would be given them."""
        world, author = self._world, self._world.post_author[posts]
        affinity = faded(self._affinity[viewer, author], self._affinity_at[viewer], at_ms / 1_000, AFFINITY_HALF_LIFE)
        return Candidates(
            post_ids=posts.astype(np.int64) + 1,
            author_ids=author.astype(np.int64) + 1,
            created_at_ms=world.post_at_ms[posts],
            has_media=world.post_media[posts],
            is_reply=world.post_reply[posts],
            topics=self._topics[posts],
            sums=self._sums[posts].astype(np.float32),
            recent=self._recent[posts].astype(np.float32),
            recent_at=self._recent_at[posts],
            author_recent=self._of_author[author].astype(np.float32),
            author_recent_at=self._of_author_at[author],
            affinity=affinity.astype(np.float32),
            is_own=np.zeros(len(posts), np.bool_),
            is_favourite=world.favourite[viewer, author],
            is_pulled=world.celebrity[author],
            was_seen=self._seen[viewer, posts],
            was_hidden=self._hidden[viewer, posts],
        )

    def observe(self, viewer: int, look: Look, places: NDArray[np.intp], ranked: bool, begun_ms: int) -> None:
        """Note what a viewer did, post after post. `places`: of the posts in the feed."""
        author = self._world.post_author[look.posts]
        told_ms = begun_ms + np.cumsum(look.dwell_ms)
        addends = np.zeros((len(look.posts), len(OBSERVED)))
        addends[:, IMPRESSIONS], addends[:, DWELL_SUM] = 1.0, look.dwell_ms / 1_000
        warmth = np.where(look.done[:, DWELL], AFFINITY_OF_DWELL, 0.0)
        for signal, kind in KIND_OF_SIGNAL.items():
            addends += np.multiply.outer(look.done[:, signal], OBSERVED_OF_ENGAGEMENT[kind])
            warmth = warmth + AFFINITY_OF_ENGAGEMENT[kind] * look.done[:, signal]
            for place in np.flatnonzero(look.done[:, signal]):
                row = (FIRST_VIEWER + viewer + 1, int(look.posts[place]) + 1, int(told_ms[place]), kind)
                self._engagements.append(row)
        self._impressions += [
            (FIRST_VIEWER + viewer + 1, int(post) + 1, int(told), int(place), int(dwell), ranked)
            for post, told, place, dwell in zip(look.posts, told_ms, places, look.dwell_ms, strict=True)
        ]
        now = int(told_ms[-1]) / 1_000
        self._add_to_posts(look.posts, addends, now)
        self._add_to_authors(author, addends, now)
        self._warm(viewer, author, warmth, now)
        self._seen[viewer, look.posts] = True
        self._hidden[viewer, look.posts[look.done[:, NEGATIVE]]] = True

    def _add_to_posts(self, posts: NDArray[np.intp], addends: NDArray[np.float64], now: float) -> None:
        self._sums[posts] += addends
        self._recent[posts] = faded(self._recent[posts], self._recent_at[posts], now, POST_HALF_LIFE) + addends
        self._recent_at[posts] = now

    def _add_to_authors(self, author: NDArray[np.intp], addends: NDArray[np.float64], now: float) -> None:
        each = np.unique(author)
        self._of_author[each] = faded(self._of_author[each], self._of_author_at[each], now, AUTHOR_HALF_LIFE)
        self._of_author_at[each] = now
        np.add.at(self._of_author, author, addends)

    def _warm(self, viewer: int, author: NDArray[np.intp], warmth: NDArray[np.float64], now: float) -> None:
        self._affinity[viewer] = faded(self._affinity[viewer], self._affinity_at[viewer], now, AFFINITY_HALF_LIFE)
        self._affinity_at[viewer] = now
        np.add.at(self._affinity[viewer], author, warmth)

    def log(self) -> Log:
        """Everything that happened, as it would be read from a mesh."""
        world = self._world
        posts = np.zeros(len(world.post_author), dataset.POST)
        posts["post"], posts["author"] = np.arange(len(posts)) + 1, world.post_author + 1
        posts["at"], posts["topics"] = world.post_at_ms, self._topics
        posts["media"], posts["reply"] = world.post_media, world.post_reply
        viewer, author = np.nonzero(world.favourite)
        return Log(
            posts=posts,
            impressions=in_time_order(np.array(self._impressions, dataset.IMPRESSION)),
            engagements=in_time_order(np.array(self._engagements, dataset.ENGAGEMENT)),
            favourites=np.column_stack([viewer + FIRST_VIEWER + 1, author + 1]),
            pulled=np.flatnonzero(world.celebrity) + 1,
        )
