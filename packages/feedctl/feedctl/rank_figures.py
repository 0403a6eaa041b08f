"""The trust figures of both views: what people do there, whom they get to see, and how attention is spread."""

from dataclasses import dataclass

import numpy as np
from feedrank.dataset import VIEWS, Log, Records
from feedrank.metrics import gini, top_share
from feedrank.replay import replay
from feedrank.signals import PREDICTED
from numpy.typing import NDArray

from feedctl.rank_mesh import DAY_MS, Circle


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one view. What cannot be said is NaN."""

    view: str
    impressions: int
    judged: int
    """Of these, those after which a day has passed, so that it is known what followed."""
    per_thousand: dict[str, float]
    """For each of PREDICTED, how often it followed, in a thousand of those judged."""
    coverage: float
    """The median over viewers and days: of those followees who wrote that day, what part the viewer saw something of."""
    gini: float
    """How unequally impressions are spread over the authors who wrote or were seen."""
    top_share: float
    """What part of all impressions the top 1 % of these authors have."""
    chosen: int
    """How often somebody switched to the view."""


def figures(log: Log, circle: Circle) -> list[Figures]:
    """The figures of each of VIEWS."""
    examples = replay(log)
    seen, authors = _with_authors(log)
    everybody = frozenset[int]().union(*circle.writers.values()) | set(authors.tolist())
    found: list[Figures] = []
    for number, view in enumerate(VIEWS):
        mine = seen["ranked"] == bool(number)
        labels = examples.labels[examples.ranked == bool(number)]
        rates = labels.mean(axis=0) * 1_000 if len(labels) else np.full(len(PREDICTED), np.nan)
        shares = coverages(seen[mine], authors[mine], circle)
        exposure = np.zeros(len(everybody))
        counts = np.unique(authors[mine], return_counts=True)[1]
        exposure[: len(counts)] = counts
        found.append(
            Figures(
                view=view,
                impressions=int(mine.sum()),
                judged=len(labels),
                per_thousand=dict(zip(PREDICTED, rates.tolist(), strict=True)),
                coverage=float(np.median(shares)) if shares else np.nan,
                gini=gini(exposure),
                top_share=top_share(exposure),
                chosen=circle.chosen[view],
            )
        )
    return found


def coverages(seen: Records, authors: NDArray[np.int64], circle: Circle) -> list[float]:
    """For each viewer and UTC day: of those followees who wrote that day, what part the viewer saw something of.

    `authors`: of the posts in `seen`. Days of viewers none of whose followees wrote are left out.
    """
    met: dict[tuple[int, int], set[int]] = {}
    for viewer, day, author in zip(
        seen["viewer"].tolist(), (seen["at"] // DAY_MS).tolist(), authors.tolist(), strict=True
    ):
        met.setdefault((viewer, day), set()).add(author)
    shares: list[float] = []
    for (viewer, day), those in met.items():
        there = circle.follows.get(viewer, frozenset[int]()) & circle.writers.get(day, frozenset[int]())
        if there:
            shares.append(len(there & those) / len(there))
    return shares


def _with_authors(log: Log) -> tuple[Records, NDArray[np.int64]]:
    """The impressions of known posts, and the authors of these."""
    posts = np.sort(log.posts, order="post")
    if not len(posts):
        return log.impressions[:0], np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(posts["post"], log.impressions["post"]), len(posts) - 1)
    known = posts["post"][place] == log.impressions["post"]
    return log.impressions[known], posts["author"][place[known]]
