"""Which server of a Redis Cluster a command goes to. Nothing here asks a server."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError

from feedkit.redis_scripts import Command

Address: TypeAlias = tuple[str, int]
"""Host and port of a server."""

_WITH_SCRIPT = frozenset({"EVALSHA", "EVAL"})
_WITHOUT_KEY = frozenset(
    {
        *("PING", "ECHO", "TIME", "PUBLISH"),
        *(
            "ACL",
            "CLIENT",
            "CLUSTER",
            "COMMAND",
            "CONFIG",
            "DBSIZE",
            "FLUSHALL",
            "INFO",
            "ROLE",
            "SCAN",
            "SCRIPT",
            "WAIT",
        ),
    }
)
_OF_MANY_KEYS = frozenset({"MGET", "DEL", "UNLINK", "EXISTS", "TOUCH"})
"""All arguments are keys, and each may be asked for alone: the first gives a list of values, the others a count."""


class Topology:
    """Who has which slot, as one server has told, and as redirections have told since."""

    def __init__(self, owners: list[Address | None], replicas: Mapping[Address, Sequence[Address]]) -> None:
        """`owners` has a primary, or nobody, for each slot."""
        self._owners = owners
        self.replicas = replicas
        """By primary."""
        self.primaries = sorted({owner for owner in owners if owner})
        self.named = frozenset(self.primaries).union(*replicas.values())
        """All that belong to the cluster."""

    @classmethod
    def parse(cls, told: Sequence[Any], asked: Address) -> Self:
        """Read the answer to CLUSTER SLOTS. A server that does not know its own host means the one that was asked."""
        owners: list[Address | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        replicas: dict[Address, list[Address]] = {}
        for first, last, *servers in told:
            owner, *others = (
                (asked[0] if host in {None, b"", b"?"} else host.decode(), port) for host, port, *_ in servers
            )
            owners[first : last + 1] = [owner] * (last + 1 - first)
            replicas[owner] = others
        return cls(owners, replicas)

    def owner(self, slot: int) -> Address | None:
        """The primary that has a slot."""
        return self._owners[slot]

    def moved(self, slot: int, owner: Address) -> None:
        """Note that a server has told of another that has a slot now."""
        self._owners[slot] = owner

    def is_as(self, other: "Topology | None") -> bool:
        """Whether this tells the same."""
        return other is not None and self._owners == other._owners and self.replicas == other.replicas


class Spread(NamedTuple):
    """The commands of a run, each on one key at most, as a cluster takes them."""

    commands: Sequence[Command]
    parts: Sequence[int] | None
    """For each command of the run, how many of these it has become; None where all are as they were."""

    def gathered(self, run: Sequence[Command], replies: Sequence[Any]) -> list[Any]:
        """The replies to the commands of the run."""
        if self.parts is None:
            return list(replies)
        gathered: list[Any] = []
        place = 0
        for command, count in zip(run, self.parts, strict=True):
            some = replies[place : place + count]
            gathered.append(some[0] if count == 1 else _joined(command, some))
            place += count
        return gathered


def spread(run: Sequence[Command]) -> Spread:
    """Take commands of many keys apart: a cluster refuses those whose keys are not in one slot."""
    if not any(len(command) > 2 and command[0] in _OF_MANY_KEYS for command in run):
        return Spread(run, None)
    commands: list[Command] = []
    parts: list[int] = []
    for command in run:
        name, *some_keys = command
        # Of one key they do what they did of many: MGET gives nothing for a key of another type, where GET is an error.
        singles = [(name, key) for key in some_keys] if len(some_keys) > 1 and name in _OF_MANY_KEYS else [command]
        commands += singles
        parts.append(len(singles))
    return Spread(commands, parts)


def slot_of(command: Command) -> int | None:
    """The slot of a command's key; None where it has none."""
    name = command[0]
    if name in _WITH_SCRIPT:
        return _slot(command[3]) if int(command[2]) else None
    return None if len(command) == 1 or name in _WITHOUT_KEY else _slot(command[1])


def _slot(key: str | bytes | int | float) -> int:
    return key_slot(key if isinstance(key, bytes) else str(key).encode())


def _joined(command: Command, replies: Sequence[Any]) -> Any:
    for reply in replies:
        if isinstance(reply, RedisError):
            return reply
    return [value for (value,) in replies] if command[0] == "MGET" else sum(replies)
