"""The Secrets that production's README says somebody has to bring."""

import re

from tests.k8s.rendering import K8S

_ROW = re.compile(r"^\| (?:`(?P<name>[\w-]+)`)? *\| (?P<keys>(?:`[\w.-]+`(?:, )?)+) \|", re.MULTILINE)


def secrets() -> dict[str, frozenset[str]]:
    """Their names and keys. A row without a name goes on with the Secret above it."""
    text = (K8S / "overlays" / "production" / "README.md").read_text(encoding="utf-8")
    found: dict[str, frozenset[str]] = {}
    name = ""
    for row in _ROW.finditer(text.partition("## Secrets")[2]):
        name = row["name"] or name
        found[name] = found.get(name, frozenset()) | frozenset(re.findall(r"`([\w.-]+)`", row["keys"]))
    return found
