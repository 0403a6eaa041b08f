"""Whether ranking is worth it, where it is known what people care for: policies in the same simulated world.

First the world is shown to its viewers by a mixture of chronological order, random order and the baseline, and a log is
kept. From that log a model is trained by the product's own code. Then each policy goes on alone from there, for some fresh
days, and what it shows is judged by the true preferences, which no policy knows.

NDCG@20 compares the first 20 posts of each order, by what they are truly worth to the viewer at that moment, with the best
20 of the candidates. Worth is the weighted sum of the true probabilities, with the weights that the product ranks by.
"""

import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import click
import numpy as np
from feedrank import log_file, model_file, models
from feedrank.candidates import Candidates
from feedrank.features import matrix
from feedrank.metrics import Interval, gini, mean_interval, ndcg, top_share
from feedrank.models import Model
from feedrank.replay import replay
from feedrank.signals import PREDICTED
from feedrank.training import split, train
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from timeline_service.config import RankingSettings
from timeline_service.ranking.arrangement import rank
from timeline_service.ranking.rules import ALL_RULES, Rules

from tests.bench.ranking_memory import Memory
from tests.bench.ranking_world import BEGIN_MS, DAY_MS, LIKE, NEGATIVE, REPLY, REPOST, Look, Size, World, probability
from tests.bench.results import Result

SEED = 20_260_101
LOG = Path("bench/ranking_world.feedlog")
"""Where the log that is learned from is kept, for `feedctl rank train --from`."""
FRESH_DAYS = 2
CANDIDATES, PAGE = 400, 20
WEIGHTS = tuple(float(RankingSettings.model_fields[f"rank_weight_{signal}"].default) for signal in PREDICTED)

Policy: TypeAlias = Callable[[Candidates, float], NDArray[np.intp]]
"""Orders candidates at a time, in Unix seconds."""


def chronological(candidates: Candidates, now: float) -> NDArray[np.intp]:
    """Newest first, as candidates come."""
    return np.arange(len(candidates))


def shuffled(seed: int) -> Policy:
    """Any order."""
    chance = np.random.default_rng(seed)
    return lambda candidates, now: chance.permutation(len(candidates))


def ranked(model: Model, rules: Rules) -> Policy:
    """As the product ranks."""

    def order(candidates: Candidates, now: float) -> NDArray[np.intp]:
        return rank(candidates, model.predict(matrix(candidates, now)), WEIGHTS, rules).rows

    return order


@dataclass
class Tally:
    """What was shown to each viewer, and what came of it."""

    viewers: int
    authors: int
    ndcg: list[list[float]] = field(init=False)
    """Of each viewer's sittings."""
    worth: list[list[float]] = field(init=False)
    """What each viewer's sittings were truly worth."""
    coverage: list[list[float]] = field(init=False)
    """Of each viewer's days: of whom, of all followees who posted, something was seen."""
    exposure: NDArray[np.int64] = field(init=False)
    seen: NDArray[np.int64] = field(init=False)
    engaged: NDArray[np.float64] = field(init=False)
    negative: NDArray[np.float64] = field(init=False)
    """How often viewers did something, as it is to be expected of what they saw: chance need not be counted too."""

    def __post_init__(self) -> None:
        self.ndcg, self.worth, self.coverage = (_empty(self.viewers) for _ in range(3))
        self.exposure = np.zeros(self.authors, np.int64)
        self.seen = np.zeros(self.viewers, np.int64)
        self.engaged, self.negative = np.zeros(self.viewers), np.zeros(self.viewers)

    def count(self, viewer: int, look: Look, authors: NDArray[np.intp]) -> None:
        """Add a sitting."""
        self.worth[viewer].append(float((look.probabilities * WEIGHTS).sum()))
        self.seen[viewer] += len(look.posts)
        self.engaged[viewer] += look.probabilities[:, [LIKE, REPLY, REPOST]].sum()
        self.negative[viewer] += look.probabilities[:, NEGATIVE].sum()
        np.add.at(self.exposure, authors, 1)

    def per_thousand(self, done: NDArray[np.float64]) -> NDArray[np.float64]:
        """(viewers,): how often something was done in a thousand impressions; NaN of who saw nothing."""
        return np.divide(1_000 * done, self.seen, out=np.full(self.viewers, np.nan), where=self.seen > 0)


def run(*, runs: int, seconds: float, size: Size | None = None) -> list[Result]:
    """Simulate, print the table, and give its figures. A fixed seed makes it the same every time, so it runs once."""
    began = time.process_time()
    world = World(size or Size(), SEED)
    tallies, trees = simulate(world, LOG)
    Console(width=150).print(_table(tallies))
    for better, worse in (("trained", "baseline"), ("baseline", "chronological"), ("baseline", "random")):
        gains = (
            f"{title} {mean_interval(figure(tallies[better]) - figure(tallies[worse]))}"
            for title, figure in FIGURES.items()
        )
        click.echo(f"{better} over {worse}, by viewer: {', '.join(gains)}")
    click.echo(f"trees: {trees}; {time.process_time() - began:.0f} s of processor time")
    return [
        Result(f"ranking.{_key(figure)}.{_key(name)}", round(found.value, 4), unit, "higher", 1, _spread(found))
        for name, tally in tallies.items()
        for figure, unit in (("NDCG@20", "ratio"), ("engagements per 1,000", "count"))
        for found in [mean_interval(FIGURES[figure](tally))]
    ]


def simulate(world: World, log: Path | None = None) -> tuple[dict[str, Tally], dict[str, int]]:
    """Log, train and go on with each policy: what each came to, and how many trees each signal has.

    `log`: the file in which what is learned from is kept.
    """
    memory = Memory(world)
    fresh_from = BEGIN_MS + (world.size.days - FRESH_DAYS) * DAY_MS
    sittings = world.sittings
    logged = sittings[sittings[:, 0] < fresh_from]
    baseline = models.load(None)
    mixture: tuple[Policy, ...] = (chronological, shuffled(SEED + 1), ranked(baseline, ALL_RULES))
    which: NDArray[np.intp] = np.random.default_rng(SEED + 2).choice(len(mixture), len(logged), p=[0.4, 0.3, 0.3])
    _show(
        world, memory, logged, [mixture[int(place)] for place in which], Tally(world.size.viewers, world.size.authors)
    )
    if log is not None:
        log.parent.mkdir(exist_ok=True)
        log_file.write(memory.log(), log)
    trained, trees = _trained(memory)
    policies = {
        "random": shuffled(SEED + 3),
        "chronological": chronological,
        "baseline": ranked(baseline, ALL_RULES),
        "trained": ranked(trained, ALL_RULES),
        "trained, no rules": ranked(trained, Rules()),
    }
    fresh = sittings[sittings[:, 0] >= fresh_from]
    tallies: dict[str, Tally] = {}
    for name, policy in policies.items():
        tallies[name] = Tally(world.size.viewers, world.size.authors)
        _show(world, memory.copied(), fresh, [policy] * len(fresh), tallies[name])
    return tallies, trees


def _trained(memory: Memory) -> tuple[Model, dict[str, int]]:
    """A model of the log, by way of its file."""
    result = train(split(replay(memory.log())), seed=SEED)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.feedrank"
        model_file.write(
            path, result.forest, trained_at_ms=BEGIN_MS, neutral=result.neutral, calibration=result.calibration
        )
        return models.load(path), {signal: len(trees) for signal, trees in result.forest.items()}


def _show(world: World, memory: Memory, sittings: NDArray[np.int64], policies: Sequence[Policy], tally: Tally) -> None:
    """Let viewers look, each time at an order that a policy made, and count what comes of it."""
    chance = np.random.default_rng(SEED + 4)
    seen_today = np.zeros(world.follows.shape, np.bool_)
    day = int(sittings[0, 0] - BEGIN_MS) // DAY_MS if len(sittings) else 0
    when: list[tuple[int, int]] = sittings.tolist()
    for (at_ms, viewer), policy in zip(when, policies, strict=True):
        if (at_ms - BEGIN_MS) // DAY_MS > day:
            _cover(world, day, seen_today, tally)
            day, seen_today = (at_ms - BEGIN_MS) // DAY_MS, np.zeros_like(seen_today)
        posts = world.followed_posts(viewer, at_ms, CANDIDATES)
        if not len(posts):
            continue
        order = posts[policy(memory.candidates(viewer, posts, at_ms), at_ms / 1_000)]
        seen = memory.has_seen(viewer, order)
        truly = probability(world.log_odds(viewer, order, at_ms, seen))
        worth = np.maximum((truly * WEIGHTS).sum(axis=1), 0.0)
        tally.ndcg[viewer].append(ndcg(worth, worth, PAGE))
        look = world.looked_at(viewer, order, at_ms, seen, chance)
        authors = world.post_author[look.posts]
        tally.count(viewer, look, authors)
        seen_today[viewer, authors] = True
        memory.observe(viewer, look, np.arange(len(look.posts)), policy is not chronological, at_ms)
    _cover(world, day, seen_today, tally)


def _cover(world: World, day: int, seen_today: NDArray[np.bool_], tally: Tally) -> None:
    """Note what part of those whom each viewer follows, and who posted on a day, the viewer saw on it."""
    of_day = (world.post_at_ms - BEGIN_MS) // DAY_MS == day
    posted = np.isin(np.arange(world.size.authors), world.post_author[of_day])
    for viewer in np.flatnonzero(seen_today.any(axis=1)):
        there = world.follows[viewer] & posted
        if there.any():
            tally.coverage[viewer].append(float(seen_today[viewer, there].mean()))


def _table(tallies: dict[str, Tally]) -> Table:
    table = Table(
        "policy",
        *FIGURES,
        "negative per 1,000",
        "coverage",
        "Gini",
        "top 1 %",
        title="In brackets: 95 % confidence over viewers",
    )
    for name, tally in tallies.items():
        figures = (mean_interval(figure(tally)) for figure in (*FIGURES.values(), _negatives, _coverage))
        exposure = f"{gini(tally.exposure):.3f}", f"{top_share(tally.exposure):.3f}"
        table.add_row(name, *(_in_brackets(figure) for figure in figures), *exposure)
    return table


def _negatives(tally: Tally) -> NDArray[np.float64]:
    return tally.per_thousand(tally.negative)


def _coverage(tally: Tally) -> NDArray[np.float64]:
    return _of_viewers(tally.coverage)


FIGURES: dict[str, Callable[[Tally], NDArray[np.float64]]] = {
    "NDCG@20": lambda tally: _of_viewers(tally.ndcg),
    "utility of a session": lambda tally: _of_viewers(tally.worth),
    "engagements per 1,000": lambda tally: tally.per_thousand(tally.engaged),
}
"""By which policies are compared; each of every viewer, (viewers,)."""


def _key(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace(",", ""))


def _in_brackets(figure: Interval) -> str:
    digits = 1 if abs(figure.value) >= 10 else 3
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f}–{figure.high:.{digits}f})"


def _of_viewers(values: list[list[float]]) -> NDArray[np.float64]:
    """The mean of each viewer; NaN of who has none."""
    known = [[value for value in mine if not np.isnan(value)] for mine in values]
    return np.array([np.mean(mine) if mine else np.nan for mine in known])


def _empty(count: int) -> list[list[float]]:
    return [[] for _ in range(count)]


def _spread(figure: Interval) -> float:
    return round((figure.high - figure.low) / figure.value, 3) if figure.value else 0.0
