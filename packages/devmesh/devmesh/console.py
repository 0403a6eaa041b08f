"""What a person sees of ``python -m devmesh``: lines, and on a terminal a sign that something is going on."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from devmesh.addresses import Addresses
from devmesh.seed import Showcase

_STEP = "[green]✓[/green]"


class Screen:
    """Lines on standard output, a failure on standard error. Colours and motion only where a terminal shows them."""

    def __init__(self) -> None:
        self._out = Console(highlight=False, soft_wrap=True)
        self._err = Console(highlight=False, soft_wrap=True, stderr=True)
        self._began = time.monotonic()

    @contextmanager
    def progress(self, what: str) -> Generator[None]:
        """Say that ``what`` is going on, until it is over."""
        if self._out.is_terminal:
            with self._out.status(escape(what)):
                yield
        else:
            self.line(what)
            yield

    def step(self, line: str) -> None:
        """Something was achieved."""
        seconds = time.monotonic() - self._began
        self._out.print(f"{_STEP} [dim]{seconds:5.1f} s[/dim]  {escape(line)}")

    def line(self, line: str) -> None:
        self._out.print(escape(line))

    def failure(self, line: str) -> None:
        """The one line of why it did not work."""
        self._err.print(f"[bold red]devmesh:[/bold red] {escape(line)}")

    def addresses(self, addresses: Addresses) -> None:
        """Where everything is, one line each."""
        rows = {
            "gateway": addresses.gateway,
            **{f"{name} (gRPC)": target for name, target in addresses.grpc.items()},
            **{f"{name} (SQL)": dsn for name, dsn in addresses.postgres.items()},
            "redis": addresses.redis,
            "kafka": addresses.kafka,
        }
        width = max(len(name) for name in rows)
        for name, address in rows.items():
            self._out.print(f"  [bold]{name:<{width}}[/bold]  {address}")

    def ready(self, addresses: Addresses, showcase: Showcase | None, threshold: str) -> None:
        """All is up: what it is, where it is, who counts as a celebrity, what to try, how to end it."""
        self.line("")
        self._out.print("[bold green]The mesh is ready.[/bold green]")
        self._out.print(
            "[bold yellow]DEVELOPMENT MODE:[/bold yellow] anybody who reaches the gateway may act as anybody, "
            "by the header X-User-Id. It listens on this machine only."
        )
        self.line("")
        self.addresses(addresses)
        self.line("")
        self.line(_who_is_pulled(threshold) + " (--set FEED_CELEBRITY_THRESHOLD=...).")
        self.line("")
        self.line("Try:")
        for line in _examples(addresses.gateway, showcase):
            self.line(f"  {line}")
        self.line("")
        self.line("Ctrl-C stops everything.")


def _who_is_pulled(threshold: str) -> str:
    if int(threshold) == 0:
        return "All posts are pulled when somebody reads; none is pushed"
    return (
        f"Posts of authors with {threshold} followers or more are pulled when somebody reads, all others are pushed when "
        "they are written"
    )


def _examples(gateway: str, showcase: Showcase | None) -> list[str]:
    if showcase is None:
        body = '{"name": "Ada Brandt"}'
        return [f"curl -s -X POST -H 'Content-Type: application/json' -d '{body}' {gateway}/api/users"]
    return [
        f"curl -s -H 'X-User-Id: {showcase.viewer}' '{gateway}/api/feed?limit=3'",
        f"curl -s -H 'X-User-Id: {showcase.viewer}' '{gateway}/api/feed?view=ranked&explain=true&limit=3'",
        f"curl -s -H 'X-User-Id: {showcase.viewer}' {gateway}/api/users/{showcase.celebrity}",
    ]
