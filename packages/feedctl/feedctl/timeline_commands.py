"""`feedctl timeline`: home timelines are made anew."""

import asyncio
import re
import sys

import click
from feedkit.errors import FeedError
from redis.crc import REDIS_CLUSTER_HASH_SLOTS
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from feedctl.command_line import USER_ID, FiniteRange, console, pass_targets, settle
from feedctl.rebuild import Rebuild, Selection, Tally, clients
from feedctl.targets import Targets

INTERRUPTED = 130


@click.group()
def timeline() -> None:
    """Make home timelines anew."""


class Slots(click.ParamType[range]):
    """Hash slots of a Redis Cluster, `A-B` or one alone."""

    name = "A-B"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """The slots as a range."""
        if isinstance(value, range):
            return value
        if (ends := re.fullmatch(r"(\d+)(?:-(\d+))?", str(value), re.ASCII)) is None:
            self.fail(f"{value!r} is not A-B, such as 0-5460", param, ctx)
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if not first <= last < REDIS_CLUSTER_HASH_SLOTS:
            self.fail(f"{value!r} is not within 0-{REDIS_CLUSTER_HASH_SLOTS - 1}, the smaller one first", param, ctx)
        return range(first, last + 1)


@timeline.command()
@click.option("--viewer", "viewers", type=USER_ID, multiple=True, metavar="ID", help="Of this viewer.")
@click.option(
    "--slots",
    type=Slots(),
    multiple=True,
    metavar="A-B",
    help="Of active viewers whose timeline is in these hash slots of a Redis Cluster, such as those of a lost shard.",
)
@click.option("--all", "everybody", is_flag=True, help="Of all active viewers.")
@click.option("--missing", is_flag=True, help="Only those that are not there.")
@click.option(
    "--rate",
    type=FiniteRange(min=0, min_open=True),
    metavar="PER SECOND",
    default=100.0,
    show_default=True,
    help="How many are asked for, at most.",
)
@click.option(
    "--active-days",
    type=click.IntRange(0, 36500),
    metavar="DAYS",
    default=30,
    show_default=True,
    help="Who counts as active: who was here within so many days, as FEED_ACTIVE_DAYS of fanout has it.",
)
@click.option("--after", type=click.IntRange(0, 2**63 - 1), default=0, metavar="ID", help="Go on after this viewer.")
@click.option(
    "--settle",
    "settle_seconds",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    default=600,
    show_default=True,
    help="How long to wait at the end until everything asked for is done.",
)
def rebuild(
    *,
    viewers: tuple[int, ...],
    slots: tuple[range, ...],
    everybody: bool,
    missing: bool,
    rate: float,
    active_days: int,
    after: int,
    settle_seconds: float,
) -> None:
    """Make home timelines anew from PostgreSQL.

    One after another, in the order of their viewers' ids. They may be read all the while. Viewers who follow nobody have
    none, and are passed over. Ctrl-C stops, and tells where to go on; what was asked for is done all the same. Exits with
    1 where something failed, or was not done in time.

    \b
    feedctl timeline rebuild --viewer 7 --viewer 8
    feedctl timeline rebuild --slots 5461-10922 --missing
    feedctl timeline rebuild --all --rate 500
    """
    if sum(map(bool, (viewers, slots, everybody))) != 1:
        raise click.UsageError("give exactly one of --viewer, --slots and --all")
    _rebuild(Selection(viewers, slots, active_days, after), missing=missing, rate=rate, settle_seconds=settle_seconds)


@pass_targets
def _rebuild(targets: Targets, selection: Selection, *, missing: bool, rate: float, settle_seconds: float) -> None:
    tally = Tally(selection.after)
    try:
        asyncio.run(_ask_for(selection, targets, tally, missing=missing, rate=rate))
    except KeyboardInterrupt:
        console.print(f"{_told(tally)}\nstopped; the same command goes on with --after {tally.reached}", soft_wrap=True)
        sys.exit(INTERRUPTED)
    except FeedError as error:
        console.print(_told(tally))
        raise click.ClickException(f"{error.message}; the same command goes on with --after {tally.reached}") from error
    console.print(_told(tally))
    done = not tally.asked or settle(targets, settle_seconds)
    sys.exit(not done or (bool(selection.viewer_ids) and bool(tally.unknown)))


async def _ask_for(selection: Selection, targets: Targets, tally: Tally, *, missing: bool, rate: float) -> None:
    async with clients(targets, with_redis=missing) as (graph, fanout, redis):
        viewer_ids = await selection.resolve(graph)
        with _progress() as progress:
            task = progress.add_task("asking for timelines", total=len(viewer_ids))
            rebuild = Rebuild(graph, fanout, redis, tally, per_second=rate)
            await rebuild.run(viewer_ids, lambda done: progress.update(task, completed=done))


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _told(tally: Tally) -> str:
    """What became of the viewers, in words: of the others only what is not 0."""
    others = {
        "there already": tally.standing,
        "viewers who follow nobody": tally.following_nobody,
        "unknown viewers": tally.unknown,
    }
    told = [f"timelines asked for: {tally.asked}", *(f"{what}: {count}" for what, count in others.items() if count)]
    return ", ".join(told)
