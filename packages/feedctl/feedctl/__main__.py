"""The commands."""

import asyncio
import sys
from pathlib import Path

import click
import grpc
from rich.progress import Progress
from rich.table import Table

from feedctl.call import CallError, Reflection
from feedctl.command_line import FiniteRange, console, pass_targets, settle, targets_of
from feedctl.dlq_commands import dlq
from feedctl.economics import economics
from feedctl.outbox_commands import outbox
from feedctl.rank_commands import rank
from feedctl.status import status as ask_status
from feedctl.targets import STATE_FILE, Targets, TargetsError
from feedctl.timeline_commands import timeline
from feedctl.user_commands import user
from feedctl.verify import Verdict, verify


@click.group(
    epilog='Completion in bash, likewise in zsh and fish: eval "$(_FEEDCTL_COMPLETE=bash_source feedctl)"',
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    default=STATE_FILE,
    show_default=True,
    envvar="FEEDCTL_STATE",
    help="The file with the addresses of the mesh.",
)
def main(state: Path) -> None:
    """Look after a home-timeline mesh."""


main.add_command(user)
main.add_command(timeline)
main.add_command(economics)
main.add_command(rank)
main.add_command(outbox)
main.add_command(dlq)


@main.command()
@pass_targets
def status(targets: Targets) -> None:
    """Show whether every part of the mesh answers. Exits with 1 where one does not."""
    parts = asyncio.run(ask_status(targets))
    table = Table("part", "address", "state", "detail")
    for part in parts:
        table.add_row(part.name, part.address, "[green]ok" if part.ok else "[red]down", part.detail)
    console.print(table)
    sys.exit(not all(part.ok for part in parts))


@main.command("verify")
@click.option("--sample", type=click.IntRange(min=1), default=20, show_default=True, help="How many viewers.")
@click.option(
    "--limit",
    "limits",
    type=click.IntRange(1, 50),
    multiple=True,
    default=(20,),
    show_default=True,
    help="Posts a page; may be given several times.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Which viewers are picked.")
@click.option(
    "--settle",
    "seconds",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="How long to wait first until everything written has reached the timelines.",
)
@pass_targets
def verify_command(targets: Targets, sample: int, limits: tuple[int, ...], seed: int, seconds: float) -> None:
    """Walk sampled home timelines to their ends and compare them with the truth in PostgreSQL.

    Exits with 1 where a walk differs. Meant for a mesh on which nobody writes just then; what is written between a walk
    and the look at the truth shows as a difference, and so may what has not reached the timelines.
    """
    settle(targets, seconds)
    verdicts = asyncio.run(_verify(targets, sample, limits, seed))
    wrong = [verdict for verdict in verdicts if verdict.faults]
    for verdict in wrong:
        console.print(f"[red]viewer {verdict.viewer_id}, {verdict.limit} a page: {'; '.join(verdict.faults)}")
    posts = sum(verdict.posts for verdict in verdicts)
    console.print(f"{len(verdicts)} walks, {posts} posts: {len(verdicts) - len(wrong)} equal, {len(wrong)} different")
    sys.exit(bool(wrong))


def _services(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """The services that there are, for completion in a shell."""
    try:
        return [name for name in targets_of(context).grpc if name.startswith(typed)]
    except TargetsError:
        return []  # nothing can be shown in the middle of a line


def _methods(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """The methods of the service that stands on the line already."""
    try:
        with grpc.insecure_channel(targets_of(context).grpc[context.params["service"]]) as channel:
            known = Reflection(channel, context.params["service"]).methods()
    except (TargetsError, CallError, KeyError):
        return []
    return [method.name for method in known if method.name.startswith(typed)]


@main.command()
@click.argument("service", shell_complete=_services)
@click.argument("method", required=False, shell_complete=_methods)
@click.argument("request", default="{}")
@pass_targets
def call(targets: Targets, service: str, method: str | None, request: str) -> None:
    """Call METHOD of SERVICE with a JSON REQUEST, by reflection; without METHOD, list what there is.

    For example: feedctl call graph GetUser '{"userId": "1"}'
    """
    if service not in targets.grpc:
        raise click.ClickException(f"no address of {service!r}; there are {', '.join(targets.grpc)}")
    try:
        with grpc.insecure_channel(targets.grpc[service]) as channel:
            reflection = Reflection(channel, service)
            if method is None:
                for known in reflection.methods():
                    click.echo(f"{known.name}({known.request}) -> {known.response}")
            else:
                for answer in reflection.call(method, request):
                    click.echo(answer)
    except CallError as error:
        raise click.ClickException(str(error)) from error


async def _verify(targets: Targets, sample: int, limits: tuple[int, ...], seed: int) -> list[Verdict]:
    verdicts: list[Verdict] = []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("walking", total=sample * len(limits))
        async for verdict in verify(targets, sample=sample, limits=limits, seed=seed):
            verdicts.append(verdict)
            progress.advance(task)
    return verdicts


if __name__ == "__main__":
    main()
