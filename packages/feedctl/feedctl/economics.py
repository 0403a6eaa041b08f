"""`feedctl economics`: whether it is cheaper to push an author's posts or to pull them. `docs/economics.md` explains it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from rich.table import Table

from feedctl.command_line import FiniteRange, console

SECONDS_A_DAY = 86_400

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class UnitCosts:
    """What each piece of work costs, in microseconds of processor time, as it was measured (`bench/results.json`)."""

    delivery: float = 26.5
    """A post is added to one timeline."""
    follower: float = 1.0
    """`graph` tells one active follower."""
    merge: float = 1.5
    """A page is read with one pulled author more among those followed."""
    list_read: float = 65.0
    """A `timeline` reads an author's recents from Redis."""
    fill: float = 1133.0
    """The recents are read from PostgreSQL and filled in, because Redis has not got them."""


@dataclass(frozen=True)
class Setting:
    """How the mesh is run, as far as it matters here."""

    timelines: int = 1
    """How many processes of `timeline` there are: each has recents of its own in memory."""
    staleness_seconds: float = 2.0
    """How long they stay there (FEED_PULLED_STALENESS_SECONDS)."""
    cache_seconds: float = 900.0
    """How long they stay in Redis (FEED_CACHE_SECONDS)."""


@dataclass(frozen=True)
class Author:
    """An author, and those who follow."""

    followers: float
    active_share: float
    """The part of the followers who were active lately, so whose timelines are pushed to."""
    reads_per_day: float
    """How often each of these opens the home timeline a day."""
    posts_per_day: float

    @property
    def active(self) -> float:
        """How many followers are active."""
        return self.followers * self.active_share

    @property
    def reads(self) -> float:
        """How many pages of a day the author's posts may belong into."""
        return self.active * self.reads_per_day


def push_cost(author: Author, costs: UnitCosts) -> float:
    """Microseconds of processor time a day that it takes to push: every post to every active follower."""
    return author.posts_per_day * author.active * (costs.delivery + costs.follower)


def pull_cost(author: Author, costs: UnitCosts, setting: Setting) -> float:
    """Microseconds of processor time a day that it takes to pull: every page, and the lists that pages share."""
    return author.reads * costs.merge + sum(
        min(author.reads, most) * cost for most, cost in _shared(author, costs, setting)
    )


def break_even(author: Author, costs: UnitCosts, setting: Setting) -> float:
    """From how many followers pulling is cheaper, all else being as it is; 0: always, infinite: never.

    Both costs grow with the followers, that of what pages share only as long as it is not done as often as it ever is.
    """
    push = author.posts_per_day * (costs.delivery + costs.follower)
    shared = sorted(_shared(author, costs, setting))
    pull = author.reads_per_day * (costs.merge + sum(cost for _, cost in shared))
    if push >= pull:
        return 0.0
    fixed = 0.0
    ends = [most / author.reads_per_day for most, _ in shared[1:]] + [math.inf]
    for (most, cost), end in zip(shared, ends, strict=True):
        pull -= author.reads_per_day * cost
        fixed += most * cost
        if push > pull and fixed / (push - pull) <= end:
            return fixed / (push - pull) / author.active_share
    return math.inf


def _shared(author: Author, costs: UnitCosts, setting: Setting) -> list[tuple[float, float]]:
    """What many pages share: how often it happens a day at most, and the microseconds that it takes."""
    # A list in memory is read again when it is too old, and when a new post is announced.
    reads = setting.timelines * (SECONDS_A_DAY / setting.staleness_seconds + author.posts_per_day)
    return [(reads, costs.list_read), (SECONDS_A_DAY / setting.cache_seconds, costs.fill)]


# --- the command ------------------------------------------------------------------------------------------------------


def _unit(name: str, what: str) -> Callable[[Command], Command]:
    return click.option(
        f"--{name}-us",
        type=FiniteRange(min=0),
        default=getattr(UnitCosts(), name.replace("-", "_")),
        show_default=True,
        metavar="MICROSECONDS",
        help=f"What it costs {what}.",
    )


_POSITIVE = FiniteRange(min=0, min_open=True)


@click.command()
@click.option("--followers", type=click.IntRange(min=1), required=True, help="How many follow the author.")
@click.option(
    "--active-share",
    type=FiniteRange(0, 1, min_open=True),
    default=0.5,
    show_default=True,
    help="The part of them who were here lately (FEED_ACTIVE_DAYS).",
)
@click.option(
    "--reads-per-day",
    type=FiniteRange(min=0),
    default=10.0,
    show_default=True,
    help="How often each of these reads their home timeline a day.",
)
@click.option(
    "--posts-per-day", type=FiniteRange(min=0), default=5.0, show_default=True, help="How often the author writes."
)
@click.option(
    "--timelines",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many processes of `timeline` run.",
)
@click.option(
    "--staleness-seconds", type=_POSITIVE, default=2.0, show_default=True, help="FEED_PULLED_STALENESS_SECONDS."
)
@click.option("--cache-seconds", type=_POSITIVE, default=900.0, show_default=True, help="FEED_CACHE_SECONDS.")
@_unit("delivery", "to add a post to one timeline")
@_unit("follower", "to be told one active follower")
@_unit("merge", "to merge one pulled author more into a page")
@_unit("list-read", "to read an author's recents from Redis")
@_unit("fill", "to read them from PostgreSQL where Redis has not got them")
def economics(
    *,
    followers: int,
    active_share: float,
    reads_per_day: float,
    posts_per_day: float,
    timelines: int,
    staleness_seconds: float,
    cache_seconds: float,
    delivery_us: float,
    follower_us: float,
    merge_us: float,
    list_read_us: float,
    fill_us: float,
) -> None:
    """Show whether pushing an author's posts is cheaper than pulling them, and from how many followers it is not.

    Costs are processor time of everybody who takes part. Those of the single pieces are defaults that were measured; give
    your own for another machine. docs/economics.md explains the sums.
    """
    author = Author(followers, active_share, reads_per_day, posts_per_day)
    costs = UnitCosts(delivery_us, follower_us, merge_us, list_read_us, fill_us)
    setting = Setting(timelines, staleness_seconds, cache_seconds)
    push, pull = push_cost(author, costs), pull_cost(author, costs, setting)
    table = Table("", "processor time a day", "for each post")
    for name, cost in (("push", push), ("pull", pull)):
        table.add_row(name, in_words(cost), in_words(cost / posts_per_day) if posts_per_day else "")
    console.print(table)
    console.print(f"cheaper: {'push' if push <= pull else 'pull'}")
    console.print(f"pulling is cheaper {from_words(break_even(author, costs, setting))}")


def in_words(microseconds: float) -> str:
    """A time, in the unit that suits it."""
    for unit, length in (("h", 3.6e9), ("min", 6e7), ("s", 1e6), ("ms", 1e3)):
        if microseconds >= length:
            return f"{microseconds / length:.3g} {unit}"
    return f"{microseconds:.3g} us"


def from_words(followers: float) -> str:
    """From how many followers something is so."""
    if not followers:
        return "from the first follower"
    return "for no number of followers" if math.isinf(followers) else f"from {math.ceil(followers):,} followers"
