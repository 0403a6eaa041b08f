"""A Redis Cluster: one shared connection to each of its servers, and who of them has which keys.

What a caller wants goes to all servers that are concerned at the same time. A server that has given keys away tells where
they are now, and they are asked for there; the caller does not notice. A server that does not answer is not waited for:
its callers are told so, as those of a single one, until its replica has taken over and all who ask have heard of it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, cast

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ClusterError,
    MovedError,
    NoScriptError,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from feedkit.redis_cluster_replicas import Replicas
from feedkit.redis_cluster_slots import Address, Topology, slot_of, spread
from feedkit.redis_connection import Call, SharedConnection
from feedkit.redis_scripts import Command, loads

logger = logging.getLogger(__name__)

MOST_TURNS = 6
"""How often a command is asked for, here and there, before that is given up."""
SHORTEST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 0.5
"""Between questions who has which keys, as long as there is reason to ask."""
PERIOD_SECONDS = 10.0
"""Between such questions without a reason: replicas come and go unnoticed."""

_ASKING: Command = ("ASKING",)
_SLOTS: Command = ("CLUSTER", "SLOTS")
_SOMETHING_CHANGES = (ClusterDownError, TryAgainError, BusyLoadingError)
"""Errors that tell that the servers are about to change their parts."""


class Reach(Protocol):
    """Makes a connection, which is not connected yet."""

    def __call__(self, address: Address | None, *, reads_replica: bool = False) -> AbstractConnection:
        """To a server of the cluster; to whichever the URL names where `address` is None.

        `reads_replica`: the server answers reads although it is a replica.
        """
        ...


class ClusterConnection:
    """The connections to a cluster, as long as `keep` runs. See `redis_connection.SharedConnection`, whose shape it has.

    Who has which slot is asked at once, and callers wait for that; then in the background, whenever an answer or a silence
    gives reason to, and otherwise now and then.
    """

    def __init__(self, reach: Reach, timeout_seconds: float) -> None:
        self._reach = reach
        self._timeout = timeout_seconds
        self._topology: Topology | None = None
        self._servers = _Connections(self._connection_to)
        self._readers = _Connections(lambda address: self._connection_to(address, reads_replica=True))
        self._replicas = Replicas(lambda: self._topology, self._servers.to, self._readers.to, timeout_seconds)
        self._away: RedisError | None = None
        """Why nobody could be asked who has which slot, the last time."""
        self._reason = asyncio.Event()
        """Set when there is reason to ask."""
        self._urged = asyncio.Event()
        self._asking_next: asyncio.Future[None] = asyncio.Future()
        """Ends with the next question that begins."""
        self._asking = self._asking_next
        """Ends with the question that began last."""

    async def call(
        self, commands: Sequence[Command], seconds: float, *, insists: bool = False, age: float = 0
    ) -> list[Any]:
        """The replies to some commands, errors of single commands among them.

        Commands on one key run in order; those on keys of different servers at the same time. What concerns servers that
        answer is done even where another one's silence fails the call. One that insists is tried with a server's replicas
        too where the server is away: they know first that they have taken over.

        `age`: how many seconds ago all that is read has to have been so at the latest, where replicas may be read.

        Raises RedisTimeoutError where the replies do not come within so many seconds, RedisError where a server is away.
        """
        until = asyncio.get_running_loop().time() + seconds
        topology = self._topology or await self._first_topology(seconds, insists=insists)
        run = spread(commands)
        errand = _Errand(self, topology, run.commands, until, insists=insists)
        return run.gathered(commands, await errand.done(age))

    async def call_everywhere(self, commands: Sequence[Command], seconds: float) -> list[list[Any]]:
        """The replies of each primary to some commands without keys; raises as `call` does."""
        topology = self._topology or await self._first_topology(seconds, insists=False)
        return await asyncio.gather(
            *(self._servers.to(address).call(commands, seconds) for address in topology.primaries)
        )

    @property
    def topology(self) -> Topology | None:
        """Who has which slot, as far as it is known."""
        return self._topology

    def server(self, address: Address) -> SharedConnection:
        """The connection to a server."""
        return self._servers.to(address)

    def reader(self, primary: Address, age: float) -> tuple[Address, SharedConnection] | None:
        """A replica of a primary that has all that was so `age` seconds ago, if there is one."""
        replica = self._replicas.in_step(primary, age) if age else None
        return None if replica is None else (replica, self._readers.to(replica))

    def any_primary(self) -> Address:
        """One that answers, as far as is known."""
        topology = self._topology
        if topology is None:
            raise RedisConnectionError("the cluster is away") from self._away
        answering = [address for address in topology.primaries if not self._servers.to(address).is_away]
        return random.choice(answering or topology.primaries)  # noqa: S311 - spreads load

    def doubt(self) -> None:
        """There is reason to ask who has which slot."""
        self._reason.set()

    def place_to_listen(self) -> Address:
        """A server at which everything that is published can be heard: all tell each other. Raises RedisError."""
        return self.any_primary()

    def has(self, address: Address | None) -> bool:
        """Whether a server belongs to the cluster."""
        return self._topology is not None and address in self._topology.named

    # --- the background ------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Ask who has which slot, and ask again, until cancelled."""
        pause = SHORTEST_PAUSE_SECONDS
        comparing = asyncio.create_task(self._replicas.keep())
        try:
            while True:
                self._asking, self._asking_next = self._asking_next, asyncio.Future()
                self._reason.clear()
                self._urged.clear()
                changed = await self._ask_for_topology()
                self._asking.set_result(None)
                pause = SHORTEST_PAUSE_SECONDS if changed else min(2 * pause, LONGEST_PAUSE_SECONDS)
                await _set_within(self._urged, pause)
                if self._topology is not None:
                    await _set_within(self._reason, PERIOD_SECONDS)
        finally:
            self._topology = None
            self._away = RedisConnectionError("the client is closed")
            for asking in (self._asking, self._asking_next):
                if not asking.done():
                    asking.set_result(None)
            comparing.cancel()
            await asyncio.wait([comparing])
            await self._servers.close()
            await self._readers.close()

    async def _first_topology(self, seconds: float, *, insists: bool) -> Topology:
        if self._away is not None and not insists:
            raise RedisConnectionError("the cluster is away") from self._away
        if insists:
            self._urged.set()
        try:
            async with asyncio.timeout(seconds):
                # Who insists waits for a question that begins after this.
                await asyncio.shield(self._asking_next if insists or self._asking.done() else self._asking)
        except TimeoutError as error:
            raise RedisTimeoutError("nobody has told in time who has which keys") from error
        if self._topology is None:
            raise RedisConnectionError("the cluster is away") from self._away
        return self._topology

    async def _ask_for_topology(self) -> bool:
        """Ask servers that answer, the others being of no use, and at last whoever the URL names. Whether that is news."""
        answering = [address for address in self._servers.known() if not self._servers.to(address).is_away]
        random.shuffle(answering)
        for address in answering:
            with suppress(RedisError):
                (told,) = await self._servers.to(address).call([_SLOTS], self._timeout)
                # A server that was sent away from the cluster, for one, knows of nobody.
                if not isinstance(told, RedisError) and told:
                    return self._adopt(Topology.parse(told, address))
        try:
            return await self._ask_the_url()
        except (RedisError, TimeoutError, OSError) as error:
            why = error if isinstance(error, RedisError) else RedisConnectionError(str(error))
        except Exception as error:
            logger.exception("asking who has which keys failed")
            why = RedisConnectionError(str(error))
        if self._away is None:
            logger.warning("the Redis Cluster is away: %s", why)
        self._away = why
        return False

    async def _ask_the_url(self) -> bool:
        connection = self._reach(None)
        try:
            async with asyncio.timeout(self._timeout):
                await connection.connect()
                await connection.send_command(*_SLOTS)
                told = await cast("Any", connection.read_response)(disable_decoding=True)
        finally:
            await connection.disconnect(nowait=True)
        if not told:
            raise ClusterError("nobody has any slot")
        return self._adopt(Topology.parse(told, (cast("Any", connection).host, cast("Any", connection).port)))

    def _adopt(self, topology: Topology) -> bool:
        if self._away is not None:
            logger.info("the Redis Cluster is back")
            self._away = None
        if topology.is_as(self._topology):
            return False
        self._topology = topology
        for address in topology.primaries:
            self._servers.to(address)
        self._servers.close_idle_but(topology.named)
        self._readers.close_idle_but(topology.named)
        return True

    def _connection_to(self, address: Address, *, reads_replica: bool = False) -> SharedConnection:
        return SharedConnection(
            lambda: self._reach(address, reads_replica=reads_replica),
            self._timeout,
            name=f"Redis at {address[0]}:{address[1]}",
        )


class _Target(NamedTuple):
    """Where some commands of a run are to be asked for now."""

    address: Address
    places: Sequence[int]
    """Of the commands within the run, ascending."""
    by_order: bool = False
    """Whether a server has sent these commands there, although their keys have not moved for good."""
    reader: SharedConnection | None = None
    """The connection to a replica, at the address, that is only read from."""


class _Errand:
    """The commands of a run on their way: to the servers that have their keys, and on to where those send them."""

    def __init__(
        self,
        cluster: ClusterConnection,
        topology: Topology,
        commands: Sequence[Command],
        until: float,
        *,
        insists: bool,
    ) -> None:
        self._cluster = cluster
        self._topology = topology
        self._commands = commands
        self._until = until
        self._insists = insists
        self._replies: dict[int, Any] = {}
        """By the place of the command."""
        self._failed: dict[Address, RedisError] = {}
        """Servers that do not answer."""

    async def done(self, age: float) -> list[Any]:
        """The replies to all commands in order; raises RedisError where a server does not answer."""
        targets = self._first_targets(age)
        for turn in range(MOST_TURNS):
            if turn > 1:
                # Two servers that send us to each other will have agreed in a moment.
                await asyncio.sleep(0.002 * 2**turn)
            targets = await self._turn(targets)
            if not targets:
                break
        if len(self._replies) < len(self._commands):
            raise next(iter(self._failed.values()), ClusterError("the keys are always somewhere else"))
        return [self._replies[place] for place in range(len(self._commands))]

    def _first_targets(self, age: float) -> Sequence[_Target]:
        places: dict[Address, list[int]] = {}
        anywhere: list[int] = []
        for place, command in enumerate(self._commands):
            slot = slot_of(command)
            if slot is None:
                anywhere.append(place)
            elif (owner := self._topology.owner(slot)) is not None:
                places.setdefault(owner, []).append(place)
            else:
                self._cluster.doubt()
                self._replies[place] = ClusterDownError("CLUSTERDOWN nobody has the slot")
        if anywhere:
            address = next(iter(places), None) or self._cluster.any_primary()
            places[address] = sorted([*places.get(address, []), *anywhere])
        return [target for address, some in places.items() for target in self._ways_to(address, some, age)]

    def _ways_to(self, address: Address, places: Sequence[int], age: float) -> Iterable[_Target]:
        if (reader := self._cluster.reader(address, age)) is not None:
            return [_Target(reader[0], places, reader=reader[1])]
        target = _Target(address, places)
        if self._insists and self._cluster.server(address).is_away:
            return [target, *self._substitutes(target)]
        return [target]

    def _substitutes(self, target: _Target) -> Iterable[_Target]:
        """The replicas of a server that does not answer, any of which may have taken over."""
        replicas = self._topology.replicas.get(target.address, ())
        return [_Target(replica, target.places) for replica in replicas if replica not in self._failed]

    async def _turn(self, targets: Sequence[_Target]) -> Sequence[_Target]:
        """Ask all of these at the same time; what is to be asked next."""
        self._topology = self._cluster.topology or self._topology
        further: list[_Target] = []
        calls: list[tuple[_Target, Call]] = []
        try:
            for target in targets:
                try:
                    calls.append((target, self._ask(target)))
                except RedisError as error:
                    further += self._without(target, error)
            for target, call in calls:
                try:
                    replies = await call.answer
                    if NoScriptError in map(type, replies):
                        replies = await self._once_more(target)
                except RedisError as error:
                    further += self._without(target, error)
                else:
                    further += self._taken(target, replies)
        finally:
            for _, call in calls:
                call.let_go()
        return [target for target in map(self._still_wanted, further) if target.places]

    def _ask(self, target: _Target) -> Call:
        return self._connection(target).ask(self._packet(target), self._seconds(), insists=self._insists)

    async def _once_more(self, target: _Target) -> list[Any]:
        """Tell a server the scripts that it does not know, and ask once more for all, because they are to run in order."""
        told = loads()
        packet = [*told, *self._packet(target)]
        return (await self._connection(target).call(packet, self._seconds(), insists=self._insists))[len(told) :]

    def _connection(self, target: _Target) -> SharedConnection:
        return target.reader or self._cluster.server(target.address)

    def _seconds(self) -> float:
        return max(self._until - asyncio.get_running_loop().time(), 0.0)

    def _packet(self, target: _Target) -> Sequence[Command]:
        commands = [self._commands[place] for place in target.places]
        return [part for command in commands for part in (_ASKING, command)] if target.by_order else commands

    def _without(self, target: _Target, error: RedisError) -> Iterable[_Target]:
        """Where to turn as a server does not answer."""
        self._cluster.doubt()
        if target.reader is not None:
            return self._to_owners(target.places)
        self._failed[target.address] = error
        return self._substitutes(target) if self._insists else ()

    def _taken(self, target: _Target, replies: Sequence[Any]) -> Iterable[_Target]:
        """Keep what was answered; where to turn for the rest."""
        elsewhere: dict[tuple[Address, bool], list[int]] = {}
        unread: list[int] = []
        for place, reply in zip(target.places, replies[1::2] if target.by_order else replies, strict=True):
            if not isinstance(reply, RedisError):
                self._replies[place] = reply
            elif target.reader is not None:
                unread.append(place)
            elif isinstance(reply, AskError):  # MovedError is one
                elsewhere.setdefault((self._sent_to(reply, target), not isinstance(reply, MovedError)), []).append(
                    place
                )
            else:
                if isinstance(reply, _SOMETHING_CHANGES):
                    self._cluster.doubt()
                self._replies.setdefault(place, reply)
        sent = [_Target(address, places, by_order) for (address, by_order), places in elsewhere.items()]
        return [*sent, *self._to_owners(unread)]

    def _sent_to(self, redirection: AskError, target: _Target) -> Address:
        # An empty host is that of the server that says so.
        address = (cast("str", cast("Any", redirection).host) or target.address[0], redirection.port)
        if isinstance(redirection, MovedError):
            self._topology.moved(redirection.slot_id, address)
            self._cluster.doubt()
        return address

    def _to_owners(self, places: Sequence[int]) -> Iterable[_Target]:
        by_owner: dict[Address, list[int]] = {}
        for place in places:
            slot = slot_of(self._commands[place])
            if slot is not None and (owner := self._topology.owner(slot)) is not None:
                by_owner.setdefault(owner, []).append(place)
        return [_Target(owner, some) for owner, some in by_owner.items()]

    def _still_wanted(self, target: _Target) -> _Target:
        if target.address in self._failed:
            return target._replace(places=())
        return target._replace(places=[place for place in target.places if place not in self._replies])


class _Connections:
    """Shared connections that are made when they are first wanted."""

    def __init__(self, make: Callable[[Address], SharedConnection]) -> None:
        self._make = make
        self._open: dict[Address, tuple[SharedConnection, asyncio.Task[None]]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def known(self) -> Sequence[Address]:
        """The servers to which there are any."""
        return list(self._open)

    def to(self, address: Address) -> SharedConnection:
        """The one to a server."""
        if address not in self._open:
            connection = self._make(address)
            self._open[address] = (connection, asyncio.create_task(connection.keep()))
        return self._open[address][0]

    def close_idle_but(self, addresses: Iterable[Address]) -> None:
        """Close those to other servers for which nobody waits."""
        for address in self._open.keys() - set(addresses):
            connection, keeping = self._open[address]
            if connection.is_idle:
                del self._open[address]
                keeping.cancel()
                self._closing.add(keeping)
                keeping.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all."""
        tasks = {keeping for _, keeping in self._open.values()} | self._closing
        self._open.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
