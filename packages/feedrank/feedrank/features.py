"""What a model knows of a viewer and a post, as numbers.

This is the only place where features are computed: `timeline` calls it to serve, and training calls it on what was known
when a post was shown, so a model never meets other features than it was trained on. A model file names its features; so
whoever changes what a feature means gives it another name.

Rates are smoothed: as if PRIOR impressions with the usual outcome had been there before all others. Little evidence
then says "as usual" instead of 0 % or 100 %.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from feedrank.candidates import Candidates
from feedrank.signals import DWELL, IMPRESSIONS, LIKES, NEGATIVES, REPLIES, REPOSTS

POST_HALF_LIFE = 3_600.0
AUTHOR_HALF_LIFE = 7 * 86_400.0
AFFINITY_HALF_LIFE = 14 * 86_400.0
"""In seconds: after which an addend of a decayed sum is worth half; as in `feedkit.feature_keys`."""

USUAL_ENGAGEMENT = 0.05
"""Likes, reposts and replies per impression of an author of whom nothing is known."""
USUAL_NEGATIVE = 0.002
"""Hides and "less like this" per impression of an author of whom nothing is known."""
USUAL_DWELL = 3.0
"""Seconds of looking per impression of a post of which nothing is known."""
AUTHOR_PRIOR = 50.0
"""Impressions that an author needs for them to say as much as what is usual."""
POST_PRIOR = 20.0
"""Impressions that a post needs for them to say as much as its author's other posts."""


class Feature(NamedTuple):
    """One column of a matrix of features."""

    name: str
    unit: str
    why: str
    neutral: float
    """What it is of a post of which nothing is known."""
    told: bool = True
    """Whether readers are told of it: not of what single people did in confidence, and could be found out by it."""


DEFINITIONS = (
    Feature("age", "log(1 + hours since it was written)", "interest fades, ever more slowly", float(np.log1p(12.0))),
    Feature(
        "affinity",
        "log(1 + affinity) as of now; as far below 0 for dislike",
        "what the viewer did with this author's posts is the best guess at what comes next",
        0.0,
    ),
    Feature(
        "author_engagement",
        "log(engagements per impression of the author's posts lately / usual)",
        "some authors are worth more of everybody's attention",
        0.0,
    ),
    Feature(
        "author_negative",
        "log(hides and 'less like this' per impression of the author's posts lately / usual); 0 of one's own",
        "what many do not want, the viewer hardly wants either; authors do not learn of it by their own posts",
        0.0,
        told=False,
    ),
    Feature("impressions", "log(1 + impressions of the post)", "how much its other numbers are worth", 0.0),
    Feature("likes", "log(1 + likes of the post)", "what many liked", 0.0),
    Feature("reposts", "log(1 + reposts of the post)", "what many found worth passing on", 0.0),
    Feature("replies", "log(1 + replies to the post)", "where people talk", 0.0),
    Feature(
        "engagement",
        "log(engagements per impression of the post / usual)",
        "how good it is whatever its reach; taken for as good as its author's others until it shows",
        0.0,
    ),
    Feature("velocity", "log(1 + engagements per hour, lately)", "what people talk about now", 0.0),
    Feature("dwell", "log(1 + seconds of looking per impression)", "what holds people", float(np.log1p(USUAL_DWELL))),
    Feature("media", "0 or 1", "pictures are looked at more, and longer", 0.0),
    Feature("reply", "0 or 1", "half a conversation interests fewer", 0.0),
    Feature("own", "0 or 1", "nobody likes or hides their own posts as they do others'", 0.0),
    Feature("favourite", "0 or 1: the author is a favourite of the viewer", "the viewer said so", 0.0),
    Feature("pulled", "0 or 1: the author has very many followers", "fame is followed by other habits", 0.0),
    Feature("seen", "0 or 1: the viewer has seen it lately", "few do anything at the second sight", 0.0),
)

FEATURES = tuple(feature.name for feature in DEFINITIONS)
"""The columns of a matrix of features, in order."""

NEUTRAL = np.array([feature.neutral for feature in DEFINITIONS], np.float32)
"""(F,): what each feature is where nothing is known."""

_MOST = 1e12
"""Sums beyond it are taken for it, so that everything stays finite."""


def faded(
    sums: NDArray[np.float32] | NDArray[np.float64], at: ArrayLike, now: float, half_life: float
) -> NDArray[np.float64]:
    """Decayed sums as they are at `now`, from what they were `at`; the same for what is `at` later than `now`.

    `sums`: (n,) or (n, k). `at`: Unix seconds, (n,) or one for all. `now`: Unix seconds. `half_life`: seconds.
    """
    worth = np.exp2(np.fmax(now - np.asarray(at, np.float64), 0.0) / -half_life)
    return np.multiply(sums, worth[:, None] if 0 < worth.ndim < sums.ndim else worth, dtype=np.float64)


def matrix(candidates: Candidates, now: float) -> NDArray[np.float32]:
    """(n, F): the features of each candidate at `now` (Unix seconds). Finite, whatever the candidates hold."""
    sums = _at_least_none(candidates.sums)
    recent = faded(_at_least_none(candidates.recent), candidates.recent_at, now, POST_HALF_LIFE)
    author = faded(_at_least_none(candidates.author_recent), candidates.author_recent_at, now, AUTHOR_HALF_LIFE)
    affinity = np.clip(np.where(np.isnan(candidates.affinity), 0.0, candidates.affinity), -_MOST, _MOST)

    author_rate = _smoothed(_engagements(author), author[:, IMPRESSIONS], USUAL_ENGAGEMENT, AUTHOR_PRIOR)
    others_negative = _smoothed(author[:, NEGATIVES], author[:, IMPRESSIONS], USUAL_NEGATIVE, AUTHOR_PRIOR)
    # Whoever has few followers would know who hid a post, if it showed in why their own posts are where they are.
    author_negative = np.where(candidates.is_own, USUAL_NEGATIVE, others_negative)
    post_rate = _smoothed(_engagements(sums), sums[:, IMPRESSIONS], author_rate, POST_PRIOR)
    per_hour = _engagements(recent) * (np.log(2.0) / (POST_HALF_LIFE / 3_600.0))

    columns = (
        np.log1p(np.fmax(now - candidates.created_at_ms / 1_000.0, 0.0) / 3_600.0),
        np.copysign(np.log1p(np.abs(affinity)), affinity),
        np.log(author_rate / USUAL_ENGAGEMENT),
        np.log(author_negative / USUAL_NEGATIVE),
        np.log1p(sums[:, IMPRESSIONS]),
        np.log1p(sums[:, LIKES]),
        np.log1p(sums[:, REPOSTS]),
        np.log1p(sums[:, REPLIES]),
        np.log(post_rate / USUAL_ENGAGEMENT),
        np.log1p(per_hour),
        np.log1p(_smoothed(sums[:, DWELL], sums[:, IMPRESSIONS], USUAL_DWELL, POST_PRIOR)),
        candidates.has_media,
        candidates.is_reply,
        candidates.is_own,
        candidates.is_favourite,
        candidates.is_pulled,
        candidates.was_seen,
    )
    filled = np.empty((len(candidates), len(FEATURES)), np.float32)
    for place, column in enumerate(columns):
        filled[:, place] = column
    return filled


def _at_least_none(sums: NDArray[np.float32]) -> NDArray[np.float64]:
    """Sums within bounds; what is no number is 0."""
    return np.fmin(np.fmax(sums.astype(np.float64), 0.0), _MOST)


def _engagements(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Likes, reposts and replies together."""
    return sums[:, LIKES] + sums[:, REPOSTS] + sums[:, REPLIES]


def _smoothed(
    outcomes: NDArray[np.float64], impressions: NDArray[np.float64], usual: ArrayLike, prior: float
) -> NDArray[np.float64]:
    """Outcomes per impression, as if `prior` impressions with the `usual` outcome had come before."""
    return (outcomes + np.multiply(usual, prior)) / (impressions + prior)
