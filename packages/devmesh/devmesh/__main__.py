"""``python -m devmesh``: start the whole mesh on this machine, see it, stop it."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from threading import Event
from types import FrameType

import click

from devmesh.console import Screen
from devmesh.errors import MeshCancelled, MeshError
from devmesh.mesh import Mesh
from devmesh.ports import GATEWAY, Ports
from devmesh.seed import PULLED_FROM_FOLLOWERS, Showcase, seed
from devmesh.state import State

DOWN_SECONDS = 120.0
THRESHOLD = "FEED_CELEBRITY_THRESHOLD"
_WATCH_SECONDS = 0.2
_SETTING = re.compile(r"[A-Z][A-Z0-9_]*")


def settings(_context: click.Context, _parameter: click.Parameter, values: Iterable[str]) -> dict[str, str]:
    """``NAME=VALUE`` words as a mapping; the later of two with one name wins."""
    named: dict[str, str] = {}
    for value in values:
        name, separator, content = value.partition("=")
        if not separator or not _SETTING.fullmatch(name):
            raise click.BadParameter(f"{value!r} is not NAME=VALUE, such as FEED_FOLLOWING_LIMIT=50")
        named[name] = content
    return named


def _one_line(command: Callable[..., None]) -> Callable[..., None]:
    """Whatever a command fails of is one line and exit code 1."""

    @wraps(command)
    def run(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except (MeshError, OSError) as error:
            Screen().failure(str(error))
            sys.exit(1)

    return run


@click.group()
def cli() -> None:
    """The embedded mesh: every process of the home timeline, with its backends, on this machine."""


@cli.command()
@click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=settings,
    help="A setting for every process; may be repeated.",
)
@click.option("--no-seed", is_flag=True, help="Start with nobody in it.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep PostgreSQL's data in this directory.",
)
@click.option("--gateway-port", metavar="PORT", type=click.IntRange(1, 65535), help=f"Instead of {GATEWAY}.")
@click.option("--free-ports", is_flag=True, help="Whatever ports are free, instead of the fixed ones.")
@_one_line
def up(settings: dict[str, str], no_seed: bool, data: Path | None, gateway_port: int | None, free_ports: bool) -> None:
    """Start the mesh and keep it in the foreground until Ctrl-C."""
    screen = Screen()
    stop = _stop_signals()
    state = State()
    # What a mesh of millions takes for a celebrity, nobody is among sixty people.
    settings = {THRESHOLD: str(PULLED_FROM_FOLLOWERS), **settings}
    with state.claim():
        mesh = Mesh(
            settings,
            data,
            Ports.free(gateway_port) if free_ports else Ports.fixed(gateway_port or GATEWAY),
            directory=state.directory,
            supervise=True,
            report=screen.step,
            changed=lambda: state.write(mesh.addresses),
            cancelled=stop,
        )
        try:
            showcase = _start(mesh, screen, stop, with_seed=not no_seed)
            state.write(mesh.addresses)
            screen.ready(mesh.addresses, showcase, settings[THRESHOLD])
            while not stop.wait(_WATCH_SECONDS):
                if mesh.failure is not None:
                    raise mesh.failure
        except MeshCancelled:
            pass  # asked to stop while starting: the same end as when asked later
        finally:
            state.clear()
            with screen.progress("Stopping ..."):
                mesh.stop()
    screen.line("Stopped.")


def _start(mesh: Mesh, screen: Screen, stop: Event, *, with_seed: bool) -> Showcase | None:
    with screen.progress("Starting the mesh in development mode ..."):
        mesh.start()
    if not with_seed:
        return None
    with screen.progress("Seeding ..."):
        showcase = seed(mesh.addresses.gateway, stop)
    if showcase.people:
        screen.step(f"seeded {showcase.people} people and {showcase.posts} posts")
    else:
        screen.step("people live here already, so nothing was seeded")
    return showcase


def _stop_signals() -> Event:
    """An event that Ctrl-C, SIGTERM and the end of the terminal set, in place of what they do otherwise."""
    stop = Event()

    def asked(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, asked)
    return stop


@cli.command()
@_one_line
def down() -> None:
    """Stop the mesh that was started in this directory, from wherever."""
    screen = Screen()
    state = State()
    pid = state.owner()
    if pid is None:
        state.clear()
        screen.line("No mesh runs here.")
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except PermissionError:
        raise MeshError(f"the mesh (pid {pid}) was started by another user, who has to stop it") from None
    deadline = time.monotonic() + DOWN_SECONDS
    with screen.progress(f"Stopping the mesh (pid {pid}) ..."):
        while state.owner() == pid:
            if time.monotonic() > deadline:
                raise MeshError(f"the mesh (pid {pid}) still runs after {DOWN_SECONDS:g} s")
            time.sleep(0.1)
    screen.line("The mesh is down.")


@cli.command()
@_one_line
def status() -> None:
    """Show where everything of the mesh is that was started in this directory."""
    screen = Screen()
    state = State()
    if state.owner() is None:
        raise MeshError("no mesh runs here")
    addresses = state.read()
    if addresses is None:
        raise MeshError("the mesh is starting or stopping")
    screen.addresses(addresses)


if __name__ == "__main__":
    cli(prog_name="python -m devmesh")
