"""`feedctl rank`: how the ranked view is made, what comes of it, and models that learn from it."""

import asyncio
import math
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import grpc
import numpy as np
from feed.timeline.v1 import timeline_pb2
from feed.timeline.v1 import timeline_pb2_grpc as _timeline_grpc
from feedrank import model_file, models
from feedrank.dataset import Log, Pseudonyms
from feedrank.evaluation import Quality, evaluate, order_quality
from feedrank.log_file import LogError, read, write
from feedrank.metrics import Interval
from feedrank.replay import Examples, replay
from feedrank.signals import PREDICTED
from feedrank.training import Split, TooFewExamples, Trained, split, train
from rich.table import Table

from feedctl.command_line import console, pass_targets, targets_of
from feedctl.rank_figures import Figures, figures
from feedctl.rank_mesh import read_circle, read_log
from feedctl.rank_plots import plot
from feedctl.targets import Targets, TargetsError

SHOW_SECONDS = 10.0

# Published without types.
timeline_grpc = cast("Any", _timeline_grpc)


class Weights(click.ParamType[tuple[float, ...]]):
    """A weight for each of PREDICTED, as SIGNAL=WEIGHT with commas between; those that are not named are 0."""

    name = "weights"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """The weights, in the order of PREDICTED."""
        if isinstance(value, tuple):
            return cast("tuple[float, ...]", value)
        named: dict[str, float] = {}
        for part in str(value).split(","):
            signal, _, weight = part.partition("=")
            try:
                named[signal] = float(weight)
            except ValueError:
                self.fail(f"{part!r} is not SIGNAL=WEIGHT", param, ctx)
            if signal not in PREDICTED or not math.isfinite(named[signal]):
                self.fail(f"{part!r}: signals are {', '.join(PREDICTED)}, weights are finite numbers", param, ctx)
        return tuple(named.get(signal, 0.0) for signal in PREDICTED)


_DAYS = click.option(
    "--days",
    type=click.IntRange(1, 3650),
    default=30,
    show_default=True,
    help="Of how many days; the mesh keeps impressions for FEED_IMPRESSION_DAYS.",
)
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def rank() -> None:
    """See how the ranked view is made and what comes of it, and train models for it."""


@rank.command()
@click.argument("file", type=_FILE)
@_DAYS
@click.option("--pseudonymise", is_flag=True, help="Replace the ids of people and posts, and topics, for good.")
@pass_targets
def export(targets: Targets, file: Path, days: int, pseudonymise: bool) -> None:
    """Write the log from which models are trained to FILE: who was shown what, and what they did with it.

    Ids and times only, no names and no texts; see feedrank/log_file.py for the format. With --pseudonymise nobody can tell
    who or what an id stands for, but times and who did things together are still there: treat it as personal data.
    """
    log = asyncio.run(read_log(targets, days))
    if pseudonymise:
        log = Pseudonyms().applied(log)
    try:
        write(log, file, pseudonymised=pseudonymise)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}") from error
    click.echo(
        f"{len(log.impressions):,} impressions, {len(log.engagements):,} engagements, {len(log.posts):,} posts: {file}"
    )


@rank.command("train")
@click.option("--from", "source", type=_FILE, help="A file that `rank export` wrote; without it, the mesh is read.")
@click.option("--out", type=_FILE, required=True, help="The file of the model, for FEED_RANK_MODEL of timeline.")
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Draw pictures into this directory.")
@_DAYS
@click.option(
    "--weights",
    type=Weights(),
    metavar="SIGNAL=WEIGHT,...",
    default="like=1,reply=3,repost=2,dwell=0.3,negative=-10",
    show_default=True,
    help="What each signal is worth where orders are judged, as FEED_RANK_WEIGHT_* of timeline have it.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same data and seed give the same model.")
@click.pass_context
def train_command(
    context: click.Context,
    *,
    source: Path | None,
    out: Path,
    plots: Path | None,
    days: int,
    weights: tuple[float, ...],
    seed: int,
) -> None:
    """Train a model on what viewers were shown and what they did, and show how well it predicts.

    The impressions are split by time: the model learns from the first 70 %, is chosen and calibrated by the next 15 %, and
    is judged by the rest, beside the baseline and chronological order.
    """
    try:
        parts = split(replay(_log(context, source, days)))
        with console.status("training"):
            trained = train(parts, seed=seed)
    except TooFewExamples as error:
        raise click.ClickException(str(error)) from error
    try:
        qualities, orders = _write_and_judge(out, trained, parts, plots, weights)
    except OSError as error:
        raise click.ClickException(f"{error.filename or out} cannot be written: {error.strerror or error}") from error
    _show_parts(parts)
    console.print(quality_table(qualities))
    shown = ", ".join(f"{name} {quality}" for name, quality in orders.items())
    console.print(f"NDCG@20 of what a viewer saw in a day: {shown}", soft_wrap=True)
    for signal in PREDICTED:
        if not trained.forest[signal]:
            console.print(f"[yellow]{signal} happened too rarely to be learned: its usual rate is predicted for all")
    console.print(f"version {model_file.read(out).version}: {out}", soft_wrap=True)


@rank.command("figures")
@click.option("--days", type=click.IntRange(1, 3650), default=7, show_default=True, help="Of how many days.")
@pass_targets
def figures_command(targets: Targets, days: int) -> None:
    """Show for each view what people do there, and beside it whom they get to see and how attention is spread."""
    log = asyncio.run(read_log(targets, days))
    if not len(log.impressions):
        raise click.ClickException(f"nobody has told of having seen anything in the latest {days} d")
    circle = asyncio.run(read_circle(targets, np.unique(log.impressions["viewer"]), days))
    console.print(figures_table(figures(log, circle)))


@rank.command()
@pass_targets
def show(targets: Targets) -> None:
    """Show the model, the weights and the rules by which `timeline` ranks just now."""
    if "timeline" not in targets.grpc:
        raise TargetsError("no address of timeline")
    try:
        with grpc.insecure_channel(targets.grpc["timeline"]) as channel:
            stub = timeline_grpc.TimelineServiceStub(channel)
            answer: timeline_pb2.GetRankingResponse = stub.GetRanking(
                timeline_pb2.GetRankingRequest(), timeout=SHOW_SECONDS
            )
    except grpc.RpcError as error:
        raise click.ClickException(f"timeline does not answer: {cast('Any', error).code().name}") from error
    trained = f", trained {_when(answer.trained_at_ms)}" if answer.trained_at_ms else ""
    console.print(f"model {answer.model}{trained}, for the newest {answer.candidates} posts", soft_wrap=True)
    table = _table("signal", "weight")
    for signal in sorted(answer.weights, key=lambda name: (*PREDICTED, name).index(name)):
        table.add_row(signal, f"{answer.weights[signal]:g}")
    console.print(table)
    console.print(f"rules: {', '.join(answer.rules) or 'none'}", soft_wrap=True)


# --- what they show ---------------------------------------------------------------------------------------------------


def quality_table(qualities: list[Quality]) -> Table:
    """How well each signal is predicted by each predictor."""
    heads = ("signal", "positives", "predictor", "AUC (95 %)", "log-loss", "calibration error")
    table = _table(*heads, title="On the test part")
    for place, quality in enumerate(qualities):
        first = not place or qualities[place - 1].signal != quality.signal
        if first and place:
            table.add_section()
        table.add_row(
            quality.signal if first else "",
            f"{quality.positives:,}" if first else "",
            quality.predictor,
            str(quality.auc),
            _number(quality.log_loss, ".4f"),
            _number(quality.calibration_error, ".4f"),
        )
    return table


def figures_table(of_views: list[Figures]) -> Table:
    """A column for each view."""
    table = _table("", *(of_view.view for of_view in of_views))
    table.add_row("impressions", *(f"{of_view.impressions:,}" for of_view in of_views))
    table.add_row("after which a day has passed", *(f"{of_view.judged:,}" for of_view in of_views))
    for signal in PREDICTED:
        rates = (of_view.per_thousand[signal] for of_view in of_views)
        table.add_row(f"{signal}, per 1,000 of these", *(_number(rate, ".1f") for rate in rates))
    table.add_section()
    table.add_row("followees who wrote and were seen", *(_number(of_view.coverage, ".1%") for of_view in of_views))
    table.add_row("Gini of impressions over authors", *(_number(of_view.gini, ".3f") for of_view in of_views))
    table.add_row("impressions of the top 1 % of them", *(_number(of_view.top_share, ".1%") for of_view in of_views))
    table.add_row("switches to this view", *(f"{of_view.chosen:,}" for of_view in of_views))
    return table


def _table(*heads: str, title: str | None = None) -> Table:
    """A table that breaks lines in a narrow terminal, rather than leave something out."""
    table = Table(title=title)
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def _log(context: click.Context, source: Path | None, days: int) -> Log:
    try:
        return asyncio.run(read_log(targets_of(context), days)) if source is None else read(source)
    except (LogError, TargetsError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{source} cannot be read: {error.strerror}") from error


def _write_and_judge(
    out: Path, trained: Trained, parts: Split, plots: Path | None, weights: tuple[float, ...]
) -> tuple[list[Quality], dict[str, Interval]]:
    """Write a model with what it was found to be worth; it is judged as it is read from a file."""
    write_model = partial(
        model_file.write,
        forest=trained.forest,
        trained_at_ms=int(time.time() * 1_000),
        neutral=trained.neutral,
        calibration=trained.calibration,
    )
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model"
        write_model(path)
        judged = {"trained": models.load(path), "baseline": models.load(None)}
    qualities, orders = evaluate(parts.test, judged), order_quality(parts.test, judged, weights)
    if plots is not None:
        plot(plots, parts.test, judged, qualities)
    write_model(out, metrics={"impressions": len(parts.training), "test": [quality.as_json() for quality in qualities]})
    return qualities, orders


def _show_parts(parts: Split) -> None:
    table = _table("part", "from", "to", "impressions", *PREDICTED)
    for name, part in (("training", parts.training), ("validation", parts.validation), ("test", parts.test)):
        counts = (f"{int(count):,}" for count in part.labels.sum(axis=0))
        table.add_row(name, *_ends(part), f"{len(part):,}", *counts)
    console.print(table)


def _ends(part: Examples) -> tuple[str, str]:
    return _when(int(part.shown_at_ms[0])), _when(int(part.shown_at_ms[-1]))


def _when(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M}"


def _number(figure: float, form: str) -> str:
    return "–" if np.isnan(figure) else format(figure, form)
