"""A client of a real Redis, of which every command waits for its turn, and is then done before anything else happens."""

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from feedkit.redis import Command, Redis, Script
from redis import Connection
from redis.exceptions import NoScriptError

from tests.oracle.protocols.turns import Turns


class SteppedRedis(Redis):
    """Takes commands as `feedkit.redis.Redis` does. Those of one round trip come one after another, and others between."""

    def __init__(self, port: int, turns: Turns, dice: random.Random, published: Callable[[bytes], None]) -> None:
        """`published` is told of each message to whatever channel."""
        self._turns = turns
        self._dice = dice
        self._published = published
        self._server: Any = Connection(host="127.0.0.1", port=port)

    async def run(self, *commands: Command) -> list[Any]:
        """See `feedkit.redis.Redis`."""
        # Mostly all at once, because that a server does others' commands between is the exception.
        together = self._dice.random() < 0.7
        replies: list[Any] = []
        for number, command in enumerate(commands):
            if not (number and together):
                await self._turns.turn()
            replies.append(self.now(command))
        return replies

    async def insist(self, *commands: Command) -> list[Any]:
        """See `feedkit.redis.Redis`."""
        return await self.run(*commands)

    def now(self, command: Command) -> Any:
        """Run a command out of turn."""
        if command[0] == "PUBLISH":
            self._published(cast("bytes", command[2]))
            return 0
        try:
            return self._reply(command)
        except NoScriptError:
            for source in Script.sources.values():
                self._reply(("SCRIPT", "LOAD", source))
            return self._reply(command)

    def _reply(self, command: Sequence[Any]) -> Any:
        self._server.send_command(*command)
        return self._server.read_response()

    def close(self) -> None:
        """Let go of the connection."""
        self._server.disconnect()
