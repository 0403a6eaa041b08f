"""Commands, and scripts, which a server runs by their digests once it has been told them."""

import hashlib
from typing import ClassVar, TypeAlias

Command: TypeAlias = tuple[str | bytes | int | float, ...]
"""A command and its arguments."""


class Script:
    """A Lua script that works on one key."""

    sources: ClassVar[dict[str, str]] = {}
    """The scripts of this process by their digests."""

    def __init__(self, source: str) -> None:
        self._sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        self.sources[self._sha] = source

    def __call__(self, key: str, *arguments: str | bytes | int | float) -> Command:
        """The command that runs the script."""
        return ("EVALSHA", self._sha, 1, key, *arguments)


def loads() -> list[Command]:
    """The commands that tell a server all scripts of this process."""
    return [("SCRIPT", "LOAD", source) for source in Script.sources.values()]
