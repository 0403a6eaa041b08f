"""What the commands share: the terminal, the addresses of the mesh, and waiting until it has settled."""

import asyncio
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import click
import grpc.aio
from rich.console import Console
from rich.markup import escape

from feedctl.accounts import AccountError
from feedctl.settled import NotSettled, settled
from feedctl.targets import Targets, TargetsError

console = Console(highlight=False)

USER_ID = click.IntRange(1, 2**63 - 1)


class FiniteRange(click.FloatRange):
    """A number in a range, and neither infinite nor what is no number at all: any range has that for one of its own."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """See click.ParamType."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def pass_targets(command: Callable[Concatenate[Targets, Arguments], Result]) -> Callable[Arguments, Result]:
    """Give a command the addresses of the mesh as its first argument, and show in one line what it fails of.

    They are read only when it runs, so that `--help` is answered without a mesh.
    """

    @functools.wraps(command)
    def run(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return command(targets_of(click.get_current_context()), *arguments, **options)
        except (TargetsError, AccountError) as error:
            raise click.ClickException(str(error)) from error

    return run


def targets_of(context: click.Context) -> Targets:
    """The addresses in the file that the command line names. Raises TargetsError."""
    state: Path = context.find_root().params["state"]
    return Targets.read(state)


def settle(targets: Targets, seconds: float) -> bool:
    """Wait until the mesh has settled, say so where it has not in time, and return whether it has.

    Without `fanout` there is nothing to wait for.
    """
    if "fanout" not in targets.grpc:
        return True
    try:
        with console.status("waiting for everything written to reach the timelines") as waiting:
            asyncio.run(
                settled(targets.grpc["fanout"], seconds, lambda left: waiting.update(f"waiting: {escape(left)}"))
            )
    except NotSettled as error:
        console.print(f"[yellow]not settled after {seconds:g} s: {escape(str(error))}", soft_wrap=True)
    except grpc.aio.AioRpcError as error:
        console.print(f"[yellow]fanout does not say whether the mesh has settled: {error.code().name}")
    else:
        return True
    return False
