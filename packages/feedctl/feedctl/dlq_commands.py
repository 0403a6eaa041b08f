"""`feedctl dlq`: what `fanout` could not handle, and handling it once more."""

import base64
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import reduce
from typing import Any, NamedTuple

import click
from rich.markup import escape
from rich.table import Table

from feedctl.command_line import console, pass_targets
from feedctl.dead_letters import DeadLetter, DeadLetterError, Place, letters, replay
from feedctl.targets import Targets, TargetsError

MOST = 100
"""How many letters are listed if nothing else is asked for."""


class Selection(NamedTuple):
    """Which letters are meant."""

    since: datetime | None
    until: datetime | None
    reason: str
    topic: str

    def has(self, letter: DeadLetter) -> bool:
        """Whether a letter is among them."""
        return (
            self.reason in letter.reason
            and self.topic in ("", letter.topic)
            and (self.since is None or letter.set_aside_at >= _utc(self.since))
            and (self.until is None or letter.set_aside_at < _utc(self.until))
        )


class PlaceType(click.ParamType[Place]):
    """PARTITION:OFFSET in the dead-letter topic."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """See click.ParamType."""
        if isinstance(value, Place):
            return value
        partition, _, offset = str(value).partition(":")
        if not (partition.isascii() and partition.isdecimal() and offset.isascii() and offset.isdecimal()):
            self.fail(f"{value!r} is no PARTITION:OFFSET, as `feedctl dlq list` shows it.", param, ctx)
        return Place(int(partition), int(offset))


@click.group()
def dlq() -> None:
    """List the records that fan-out set aside, and have them handled once more."""


Command = Callable[..., None]
_FILTERS = (
    click.option("--since", type=click.DateTime(), help="Only those that were set aside since then, in UTC."),
    click.option("--until", type=click.DateTime(), help="Only those that were set aside before then, in UTC."),
    click.option("--reason", default="", metavar="TEXT", help="Only those whose reason contains this."),
    click.option("--topic", default="", metavar="TOPIC", help="Only those that came from this topic."),
)


def _filtered(command: Command) -> Command:
    return reduce(lambda wrapped, option: option(wrapped), reversed(_FILTERS), command)


@dlq.command("list")
@_filtered
@click.option(
    "--limit", type=click.IntRange(min=1), default=MOST, show_default=True, help="The newest of them, so many at most."
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object a line, with all headers and the payload in base64."
)
@pass_targets
def list_letters(
    targets: Targets,
    limit: int,
    as_json: bool,
    **selected: Any,
) -> None:
    """Show what was set aside, oldest first: where it is, where it came from, and why."""
    found = _found(targets, Selection(**selected))
    shown = found[-limit:]
    if as_json:
        for letter in shown:
            click.echo(json.dumps(_told(letter)))
        return
    table = Table("place", "set aside (UTC)", "from", "key", "type", "bytes", "reason")
    for letter in shown:
        table.add_row(*map(escape, _row(letter)))
    console.print(table)
    console.print(f"{len(found)} records" + (f", of which the newest {limit} are shown" if len(found) > limit else ""))


@dlq.command("replay")
@click.argument("places", metavar="[PLACE]...", type=PlaceType(), nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that the options select, instead of named ones.")
@_filtered
@click.option("--yes", is_flag=True, help="Do not ask first.")
@pass_targets
def replay_letters(
    targets: Targets,
    places: Sequence[Place],
    everything: bool,
    yes: bool,
    **selected: Any,
) -> None:
    """Send records to the topics that they came from once more, when what they failed of is mended.

    Each PLACE is one that `feedctl dlq list` shows. Records that were handled meanwhile do no harm: whoever handles one
    again comes to the same end. They stay in the dead-letter topic until it expires them. Exits with 1 where one cannot be
    sent.
    """
    if bool(places) == everything:
        raise click.UsageError("name places, or give --all")
    found = _found(targets, Selection(**selected))
    if missing := sorted(set(places) - {letter.place for letter in found}):
        raise click.ClickException(f"there is no record at {', '.join(map(str, missing))}")
    chosen = found if everything else [letter for letter in found if letter.place in places]
    sendable = [letter for letter in chosen if not letter.why_not()]
    for letter in chosen:
        if why := letter.why_not():
            console.print(f"[yellow]{letter.place} is passed over: {escape(why)}")
    if sendable and not yes:
        click.confirm(f"Send {len(sendable)} records once more?", abort=True)
    try:
        replay(_brokers(targets), sendable)
    except DeadLetterError as error:
        raise click.ClickException(str(error)) from error
    console.print(f"{len(sendable)} records were sent once more")
    sys.exit(len(sendable) < len(chosen))


def _brokers(targets: Targets) -> str:
    if not targets.kafka:
        raise TargetsError("dead letters need the address of Kafka")
    return targets.kafka


def _found(targets: Targets, selection: Selection) -> list[DeadLetter]:
    try:
        found = letters(_brokers(targets))
    except DeadLetterError as error:
        raise click.ClickException(str(error)) from error
    return [letter for letter in found if selection.has(letter)]


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC)


def _row(letter: DeadLetter) -> list[str]:
    return [
        str(letter.place),
        letter.set_aside_at.strftime("%Y-%m-%d %H:%M:%S"),
        f"{letter.topic} {letter.partition}:{letter.offset}",
        letter.key.decode(errors="replace"),
        letter.type,
        str(letter.full_bytes),
        letter.reason,
    ]


def _told(letter: DeadLetter) -> dict[str, object]:
    return {
        "place": str(letter.place),
        "setAsideAt": letter.set_aside_at.isoformat(),
        "reason": letter.reason,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "key": letter.key.decode(errors="replace"),
        "headers": letter.headers,
        "payload": base64.b64encode(letter.value).decode(),
        "payloadBytes": letter.full_bytes,
    }
