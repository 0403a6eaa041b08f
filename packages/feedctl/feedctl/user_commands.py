"""`feedctl user`: what operators do to accounts."""

import asyncio
import sys
from collections.abc import Sequence
from time import monotonic

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from feedctl.accounts import Accounts
from feedctl.command_line import USER_ID, FiniteRange, console, pass_targets
from feedctl.erasure import Account, Stores, Ties, Trace, stores, total
from feedctl.targets import Targets

LOOK_SECONDS = 0.25
"""How long it is waited, at least, until it is looked again how far an erasure has come."""


@click.group()
def user() -> None:
    """Suspend, restore and delete accounts, with the operators' token.

    The token is in the state file of a development mesh; for any other, set FEED_OPERATOR_TOKEN.
    """


@user.command()
@click.argument("user_id", metavar="ID", type=USER_ID)
@pass_targets
def suspend(targets: Targets, user_id: int) -> None:
    """Hide what user ID wrote.

    From the next read on nobody sees it, and the account can neither post nor follow.
    """
    asyncio.run(Accounts(targets).suspend(user_id))
    console.print(f"user {user_id} is suspended")


@user.command()
@click.argument("user_id", metavar="ID", type=USER_ID)
@pass_targets
def restore(targets: Targets, user_id: int) -> None:
    """End the suspension of user ID.

    From the next read on everything shows as if there had been none.
    """
    asyncio.run(Accounts(targets).restore(user_id))
    console.print(f"user {user_id} is restored")


@user.command()
@click.argument("user_id", metavar="ID", type=USER_ID)
@click.option("--yes", is_flag=True, help="Do not ask first.")
@click.option(
    "--verify",
    is_flag=True,
    help="Prove it: show every place that was looked at, and what is left there. An account that is deleted already is "
    "only looked at.",
)
@click.option(
    "--tied",
    type=USER_ID,
    multiple=True,
    metavar="ID",
    help="For --verify, somebody who followed the user or was followed, whose counts and copies are looked at too. Those "
    "who are tied at the time of the deletion need not be named.",
)
@click.option(
    "--scan",
    type=click.IntRange(min=0),
    metavar="KEYS",
    default=1_000_000,
    show_default=True,
    help="For --verify, how many keys of Redis are gone through at most, in search of posts.",
)
@click.option(
    "--wait",
    type=FiniteRange(min=0),
    metavar="SECONDS",
    default=600,
    show_default=True,
    help="How long to wait until all is erased.",
)
@pass_targets
def purge(
    targets: Targets, *, user_id: int, yes: bool, verify: bool, tied: tuple[int, ...], scan: int, wait: float
) -> None:
    """Delete user ID for good, and wait until all is erased.

    From the next read on nothing of it shows. The rest is erased behind that, and goes on when this is stopped; the same
    command picks it up again. Whether all is gone is looked up in PostgreSQL and Redis themselves, past every service.
    Exits with 1 where anything is left.

    \b
    feedctl user purge 7 --verify        delete, wait and show the proof
    feedctl user purge 7 --verify        later: look again, and change nothing
    """
    try:
        left = asyncio.run(_purge(targets, user_id, yes=yes, verify=verify, tied=tied, scan=scan, wait=wait))
    except KeyboardInterrupt:
        raise click.ClickException(
            f"stopped; feedctl user purge {user_id} --verify tells whether all is erased"
        ) from None
    sys.exit(bool(left))


async def _purge(
    targets: Targets, user_id: int, *, yes: bool, verify: bool, tied: tuple[int, ...], scan: int, wait: float
) -> int:
    """How much is left in the end."""
    async with stores(targets) as look_in:
        account = await look_in.account(user_id)
        if account is None:
            raise click.ClickException(f"there is no user {user_id}, and never was")
        ties = Ties(user_ids=tied)
        if not (verify and account.is_deleted):
            ties = await _erase(look_in, Accounts(targets), account, ties, yes=yes, wait=wait)
        if verify:
            traces = await look_in.everything_left(user_id, ties, scan)
            console.print(_table(traces))
        else:
            traces = await look_in.left(user_id, ties)
    console.print(_verdict(user_id, traces), soft_wrap=True)
    return total(traces)


async def _erase(look_in: Stores, accounts: Accounts, account: Account, named: Ties, *, yes: bool, wait: float) -> Ties:
    """Delete an account and wait until all is erased; what led to it before that, which nobody knows afterwards."""
    ties = (await look_in.ties(account.user_id)).joined(named)
    if not (yes or account.is_deleted):
        click.confirm(
            f"Delete user {account.user_id}, {account.name!r}, for good, with {len(ties.post_ids)} posts "
            f"and what ties them to {len(ties.user_ids)} others?",
            abort=True,
        )
    await accounts.delete(account.user_id)
    await _until_erased(look_in, account.user_id, ties, wait)
    return ties


async def _until_erased(look_in: Stores, user_id: int, ties: Ties, wait: float) -> None:
    """Return when nothing is left, or after so many seconds."""
    began = monotonic()
    with _progress() as progress:
        task = progress.add_task(f"erasing user {user_id}", total=None)
        most = 1
        while (looked := monotonic()) < began + wait:
            left = total(await look_in.left(user_id, ties))
            if not left:
                return
            most = max(most, left)
            progress.update(task, total=most, completed=most - left)
            # Counting what somebody with millions has takes time: a tenth of it all at most.
            await asyncio.sleep(max(LOOK_SECONDS, 9 * (monotonic() - looked)))


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _table(traces: Sequence[Trace]) -> Table:
    table = Table("place", "looked at", "left")
    for trace in traces:
        table.add_row(trace.place, trace.looked_at, f"[red]{trace.left}" if trace.left else "[green]nothing")
    return table


def _verdict(user_id: int, traces: Sequence[Trace]) -> str:
    left = ", ".join(f"{trace.left} in {trace.place}" for trace in traces if trace.left)
    if not left:
        unseen = sum(trace.unseen for trace in traces)
        seen = f"nothing is left in the {len(traces) - unseen} places that were looked at"
        blind = f"; in {unseen} it is not known where to look (--tied)" if unseen else ""
        return f"[green]user {user_id} is erased: {seen}[/]{blind}"
    return (
        f"[red]of user {user_id} there is left: {left}[/]\n`feedctl user purge {user_id}` has rows erased once more; "
        "what is cached is gone when `FEED_CACHE_SECONDS` are over"
    )
