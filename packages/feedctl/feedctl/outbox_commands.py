"""`feedctl outbox`: events that Kafka refused, and publishing them once more."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import click
import grpc
from feed.outbox.v1 import outbox_pb2
from feed.outbox.v1 import outbox_pb2_grpc as _outbox_grpc
from rich.markup import escape
from rich.table import Table

from feedctl.command_line import console, pass_targets
from feedctl.targets import Targets, TargetsError

if TYPE_CHECKING:
    from feed.outbox.v1.outbox_pb2_grpc import OutboxServiceStub

outbox_grpc = cast("Any", _outbox_grpc)

WRITERS = ("post", "graph")
"""The services that have an outbox."""
SECONDS = 10.0
AT_ONCE = 1000

ID = click.IntRange(1, 2**63 - 1)


@click.group()
def outbox() -> None:
    """List the events that Kafka refused, and publish them once more."""


@outbox.command("list")
@pass_targets
def list_events(targets: Targets) -> None:
    """Show what the relays set aside, service by service, oldest first, and why."""
    table = Table("service", "id", "set aside (UTC)", "committed (UTC)", "topic", "key", "type", "bytes", "reason")
    count = 0
    for service in WRITERS:
        for event in _set_aside(targets, service):
            count += 1
            table.add_row(service, *map(escape, _row(event)))
    console.print(table)
    console.print(f"{count} events")


@outbox.command("replay")
@click.argument("service", type=click.Choice(WRITERS))
@click.argument("ids", metavar="[ID]...", type=ID, nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that SERVICE has, instead of named ones.")
@pass_targets
def replay_events(targets: Targets, service: str, ids: Sequence[int], everything: bool) -> None:
    """Put events of SERVICE that were set aside back into its outbox, when Kafka takes them at last.

    Those that it still refuses are set aside again, under a new id. Exits with 1 where one is not there.
    """
    if bool(ids) == everything:
        raise click.UsageError("name ids, or give --all")
    chosen = [event.id for event in _set_aside(targets, service)] if everything else sorted(set(ids))
    back: set[int] = set()
    with _calling(targets, service) as stub:
        for start in range(0, len(chosen), AT_ONCE):
            request = outbox_pb2.ReplaySetAsideRequest(ids=chosen[start : start + AT_ONCE])
            back.update(stub.ReplaySetAside(request, timeout=SECONDS).ids)
    console.print(f"{len(back)} events are published once more")
    if missing := sorted(set(chosen) - back):
        raise click.ClickException(f"not set aside: {', '.join(map(str, missing))}")


def _set_aside(targets: Targets, service: str) -> Iterator[outbox_pb2.SetAsideEvent]:
    request = outbox_pb2.ListSetAsideRequest(page_size=AT_ONCE)
    with _calling(targets, service) as stub:
        while True:
            answer = stub.ListSetAside(request, timeout=SECONDS)
            yield from answer.events
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token


@contextmanager
def _calling(targets: Targets, service: str) -> "Generator[OutboxServiceStub]":
    if service not in targets.grpc:
        raise TargetsError(f"the events of {service} need its gRPC address")
    with grpc.insecure_channel(targets.grpc[service]) as channel:
        try:
            yield outbox_grpc.OutboxServiceStub(channel)
        except grpc.RpcError as error:
            code = cast("grpc.Call", error).code().name
            raise click.ClickException(f"{service} at {targets.grpc[service]} does not answer: {code}") from error


def _row(event: outbox_pb2.SetAsideEvent) -> list[str]:
    return [
        str(event.id),
        _time(event.set_aside_at_ms),
        _time(event.created_at_ms),
        event.topic,
        event.key,
        event.type,
        str(event.payload_bytes),
        event.reason,
    ]


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
