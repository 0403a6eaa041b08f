"""A log gone through once more: of each impression, what was known before it and what followed.

What was known is computed as the mesh would have had it then, and turned into features by the very code that serves.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from feedrank import dataset
from feedrank.candidates import Candidates
from feedrank.dataset import Log, Records
from feedrank.features import AFFINITY_HALF_LIFE, AUTHOR_HALF_LIFE, FEATURES, POST_HALF_LIFE, matrix
from feedrank.histories import Histories
from feedrank.signals import (
    DWELL,
    DWELL_SECONDS,
    IMPRESSIONS,
    LIKES,
    NEGATIVES,
    OBSERVED,
    PREDICTED,
    REPLIES,
    REPOSTS,
)

LABEL_WINDOW_MS = 24 * 3_600_000
"""How long after an impression what the viewer does with the post is taken to come of it."""
TOLD_WITHIN_MS = 15_000
"""Clients tell of impressions in batches, at most so long after the look. What the viewer did meanwhile came of it too."""
ROWS_AT_ONCE = 1 << 16

AFFINITY_OF_DWELL = 0.5
"""What an impression on which the viewer dwelt adds to the affinity to the author; as in `feedkit.feature_keys`."""
AFFINITY_OF_ENGAGEMENT = np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0, -4.0, -6.0])
"""What each of ENGAGEMENTS adds to the affinity of whoever did it to the author; as in `feedkit.feature_keys`."""

OBSERVED_OF_ENGAGEMENT = np.zeros((len(dataset.ENGAGEMENTS), len(OBSERVED)))
"""What each of ENGAGEMENTS adds to the sums of the post and of its author."""
OBSERVED_OF_ENGAGEMENT[dataset.LIKE, LIKES], OBSERVED_OF_ENGAGEMENT[dataset.UNLIKE, LIKES] = 1, -1
OBSERVED_OF_ENGAGEMENT[dataset.REPOST, REPOSTS], OBSERVED_OF_ENGAGEMENT[dataset.UNREPOST, REPOSTS] = 1, -1
OBSERVED_OF_ENGAGEMENT[dataset.REPLY, REPLIES], OBSERVED_OF_ENGAGEMENT[dataset.UNREPLY, REPLIES] = 1, -1
OBSERVED_OF_ENGAGEMENT[[dataset.LESS_LIKE_THIS, dataset.HIDE], NEGATIVES] = 1

_LABEL_KINDS = (
    ("like", (dataset.LIKE,), (dataset.UNLIKE,)),
    ("reply", (dataset.REPLY,), (dataset.UNREPLY,)),
    ("repost", (dataset.REPOST,), (dataset.UNREPOST,)),
    ("negative", (dataset.LESS_LIKE_THIS, dataset.HIDE), ()),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Impressions in the order of time, `n` rows: what a model is shown of each, and what it is to predict."""

    features: NDArray[np.float32]
    """(n, F): as they were when the post was shown."""
    labels: NDArray[np.bool_]
    """(n, PREDICTED): what followed."""
    shown_at_ms: NDArray[np.int64]
    """(n,) Unix milliseconds."""
    created_at_ms: NDArray[np.int64]
    """(n,): when the post was written, in Unix milliseconds."""
    viewer_ids: NDArray[np.int64]
    """(n,)."""
    ranked: NDArray[np.bool_]
    """(n,): whether it was shown in the ranked view."""

    def __len__(self) -> int:
        return len(self.labels)

    def taken(self, rows: "slice | NDArray[np.bool_] | NDArray[np.intp]") -> "Examples":
        """Some of the rows."""
        return Examples(
            features=self.features[rows],
            labels=self.labels[rows],
            shown_at_ms=self.shown_at_ms[rows],
            created_at_ms=self.created_at_ms[rows],
            viewer_ids=self.viewer_ids[rows],
            ranked=self.ranked[rows],
        )


def replay(log: Log, *, told_within_ms: int = TOLD_WITHIN_MS) -> Examples:
    """Examples of a log: its impressions of known posts, but for those of which it ends too soon to know what followed.

    A post counts as shown `told_within_ms` and the look itself before its impression was told of. Favourites and pulled
    authors are taken as they are at the end of the log, because it tells of no change.
    """
    return _Replay(log, told_within_ms).examples()


class _Replay:
    """A log with its posts and viewers numbered from 0, and the histories of everything that is summed up."""

    def __init__(self, log: Log, told_within_ms: int) -> None:
        self._posts = np.sort(log.posts, order="post")
        self._authors, self._post_author = np.unique(self._posts["author"], return_inverse=True)
        impressions, self._seen_post = self._of_known_posts(log.impressions)
        engagements, self._engaged_post = self._of_known_posts(log.engagements)
        self._impressions, self._engagements, self._log = impressions, engagements, log
        people = np.concatenate([impressions["viewer"], engagements["actor"]])
        self._people, numbered = np.unique(people, return_inverse=True)
        self._viewer, self._actor = numbered[: len(impressions)], numbered[len(impressions) :]
        self._shown_at_ms = impressions["at"] - impressions["dwell_ms"] - told_within_ms
        self._sum_up()

    def examples(self) -> Examples:
        """Of all impressions whose window is over, in the order in which they were shown."""
        over = np.flatnonzero(self._shown_at_ms + LABEL_WINDOW_MS <= self._log.ends_at_ms)
        rows = over[np.argsort(self._shown_at_ms[over], kind="stable")]
        features = np.empty((len(rows), len(FEATURES)), np.float32)
        for start in range(0, len(rows), ROWS_AT_ONCE):
            chunk = rows[start : start + ROWS_AT_ONCE]
            # What counts is how long ago everything was: with each impression at the time 0 all are computed at once.
            features[start : start + len(chunk)] = matrix(self._candidates(chunk), 0.0)
        return Examples(
            features=features,
            labels=self._labels(rows),
            shown_at_ms=self._shown_at_ms[rows],
            created_at_ms=self._posts["at"][self._seen_post[rows]],
            viewer_ids=self._impressions["viewer"][rows],
            ranked=self._impressions["ranked"][rows],
        )

    def _of_known_posts(self, records: Records) -> tuple[Records, NDArray[np.intp]]:
        """The records of posts that are in the log, and the numbers of these posts."""
        if not len(self._posts):
            return records[:0], np.zeros(0, np.intp)
        place = np.minimum(np.searchsorted(self._posts["post"], records["post"]), len(self._posts) - 1)
        known = self._posts["post"][place] == records["post"]
        return records[known], place[known]

    def _sum_up(self) -> None:
        impressions, engagements = self._impressions, self._engagements
        seconds = impressions["dwell_ms"] / 1_000.0
        observed = np.zeros((len(impressions), len(OBSERVED)))
        observed[:, IMPRESSIONS], observed[:, DWELL] = 1.0, seconds
        observed = np.concatenate([observed, OBSERVED_OF_ENGAGEMENT[engagements["kind"]]])
        warmth = np.concatenate(
            [AFFINITY_OF_DWELL * (seconds >= DWELL_SECONDS), AFFINITY_OF_ENGAGEMENT[engagements["kind"]]]
        )
        at_ms = np.concatenate([impressions["at"], engagements["at"]])
        post = np.concatenate([self._seen_post, self._engaged_post])
        author = self._post_author[post]
        person = np.concatenate([self._viewer, self._actor])
        self._sums = Histories(post, at_ms, observed)
        self._recent = Histories(post, at_ms, observed, half_life=POST_HALF_LIFE)
        self._author_recent = Histories(author, at_ms, observed, half_life=AUTHOR_HALF_LIFE)
        # What somebody does with their own posts says nothing of whom they like.
        warmth = np.where(self._people[person] == self._authors[author], 0.0, warmth)
        self._affinity = Histories(
            self._pair(person, author), at_ms, warmth[:, None], half_life=AFFINITY_HALF_LIFE, floor=-np.inf
        )
        views, hides = self._view(person, post), np.zeros((len(post), 1))
        hides[len(impressions) :, 0] = engagements["kind"] == dataset.HIDE
        sights = hides.copy()  # what is hidden has been seen
        sights[: len(impressions)] = 1.0
        self._sights, self._hides = Histories(views, at_ms, sights), Histories(views, at_ms, hides)

    def _candidates(self, rows: NDArray[np.intp]) -> Candidates:
        """What was known when some impressions were made, at whose times the clock stood at 0."""
        post, viewer, now_ms = self._seen_post[rows], self._viewer[rows], self._shown_at_ms[rows]
        author = self._post_author[post]
        posts = self._posts[post]
        sums, _ = self._sums.before(post, now_ms)
        recent, recent_at = self._recent.before(post, now_ms)
        author_recent, author_at = self._author_recent.before(author, now_ms)
        view = self._view(viewer, post)
        return Candidates(
            post_ids=posts["post"],
            author_ids=posts["author"],
            created_at_ms=posts["at"] - now_ms,
            has_media=posts["media"],
            is_reply=posts["reply"],
            topics=posts["topics"],
            sums=sums.astype(np.float32),
            recent=recent.astype(np.float32),
            recent_at=(recent_at - now_ms) / 1_000.0,
            author_recent=author_recent.astype(np.float32),
            author_recent_at=(author_at - now_ms) / 1_000.0,
            affinity=self._affinity.faded_before(self._pair(viewer, author), now_ms)[:, 0].astype(np.float32),
            is_own=self._impressions["viewer"][rows] == posts["author"],
            is_favourite=self._are_favourites(viewer, author),
            is_pulled=np.isin(posts["author"], self._log.pulled),
            was_seen=self._sights.before(view, now_ms)[0][:, 0] > 0,
            was_hidden=self._hides.before(view, now_ms)[0][:, 0] > 0,
        )

    def _labels(self, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        labels = np.zeros((len(rows), len(PREDICTED)), np.bool_)
        views = self._view(self._viewer, self._seen_post)[rows]
        begin = self._shown_at_ms[rows]
        done_to = self._view(self._actor, self._engaged_post)
        for signal, done, taken_back in _LABEL_KINDS:
            of_kind = np.isin(self._engagements["kind"], (*done, *taken_back))
            signs = np.where(np.isin(self._engagements["kind"][of_kind], done), 1.0, -1.0)
            history = Histories(done_to[of_kind], self._engagements["at"][of_kind], signs[:, None], floor=-np.inf)
            followed = history.before(views, begin + LABEL_WINDOW_MS)[0] - history.before(views, begin)[0]
            labels[:, PREDICTED.index(signal)] = followed[:, 0] > 0
        labels[:, PREDICTED.index("dwell")] = self._impressions["dwell_ms"][rows] >= DWELL_SECONDS * 1_000
        return labels

    def _pair(self, people: NDArray[np.intp], authors: NDArray[np.intp]) -> NDArray[np.int64]:
        """One number for a person and an author."""
        return people.astype(np.int64) * len(self._authors) + authors

    def _view(self, people: NDArray[np.intp], posts: NDArray[np.intp]) -> NDArray[np.int64]:
        """One number for a person and a post."""
        return people.astype(np.int64) * len(self._posts) + posts

    def _are_favourites(self, viewers: NDArray[np.intp], authors: NDArray[np.intp]) -> NDArray[np.bool_]:
        known = np.isin(self._log.favourites[:, 0], self._people) & np.isin(self._log.favourites[:, 1], self._authors)
        favourites = self._log.favourites[known]
        pairs = self._pair(
            np.searchsorted(self._people, favourites[:, 0]), np.searchsorted(self._authors, favourites[:, 1])
        )
        return np.isin(self._pair(viewers, authors), pairs)
