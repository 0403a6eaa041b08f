"""The table of arrows in k8s/README.md, and the arrows that follow from the settings of processes."""

import re
from collections.abc import Iterator

from devmesh.processes import PROCESSES

from tests.k8s.network_policies import Arrow
from tests.k8s.rendering import K8S, ROOT

EVERY_POD = "every pod"
NAMES = 53
"""Where names are looked up: by UDP, and by TCP where an answer is long."""

_ROW = re.compile(r"^\| (?P<source>[^|]+?) \| (?P<target>[^|]+?) \| (?P<port>\d+) \| [^|]+ \|$", re.MULTILINE)
_BACKENDS = {
    "FEED_POSTGRES_DSN": ("postgres", 5432),
    "FEED_REDIS_URL": ("redis", 6379),
    "FEED_KAFKA_BROKERS": ("kafka", 9092),
}


def table() -> list[Arrow]:
    """The rows of the table, in its order."""
    text = (K8S / "README.md").read_text(encoding="utf-8")
    return [Arrow(row["source"], row["target"], int(row["port"])) for row in _ROW.finditer(text)]


def allowed(pods: list[str], rows: list[Arrow]) -> set[Arrow]:
    """What the rows say of these pods, one by one."""
    return {
        Arrow(source, row.target, row.port, protocol)
        for row in rows
        for source in (pods if row.source == EVERY_POD else [row.source])
        for protocol in (("TCP", "UDP") if row.port == NAMES else ("TCP",))
    }


def needed() -> set[Arrow]:
    """From docs/configuration.md: a process that is told where something is connects to it."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    return {
        Arrow(process, *there)
        for row in re.finditer(r"^\| `(?P<name>FEED_\w+)` \| [^|]* \| (?P<processes>[^|]+) \|", text, re.MULTILINE)
        if (there := _there(row["name"])) is not None
        for process in _processes(row["processes"])
    }


def _there(setting: str) -> tuple[str, int] | None:
    if match := re.fullmatch(r"FEED_(\w+)_TARGET", setting):
        return match[1].lower(), 50051
    return _BACKENDS.get(setting)


def _processes(cell: str) -> Iterator[str]:
    for name in cell.split(", "):
        if name == "relays":
            yield from (process.name for process in PROCESSES if process.role == "relay")
        elif name == "all":
            yield from (process.name for process in PROCESSES)
        else:
            yield name
