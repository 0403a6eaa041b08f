"""Redis: a client that takes commands by the round trip, traced, whose failures are domain errors."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from pydantic import Field, RedisDsn, ValidationInfo, field_validator
from redis import asyncio as redis
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from feedkit import deadline, telemetry
from feedkit.config import Settings
from feedkit.errors import Unavailable
from feedkit.redis_cluster import ClusterConnection
from feedkit.redis_cluster_slots import Address
from feedkit.redis_connection import SharedConnection
from feedkit.redis_scripts import Command, Script

__all__ = ["Command", "Redis", "RedisSettings", "Script", "connect", "report_settings"]

logger = logging.getLogger(__name__)

NOT_NOW = {
    "LOADING": "is loading its data",
    "READONLY": "takes no writes, because it is a replica for now",
    "OOM": "is full",
    "MISCONF": "takes no writes, because it cannot save",
    "CLUSTERDOWN": "its cluster is down",
    "TRYAGAIN": "is moving the keys",
    "MASTERDOWN": "has lost its primary",
    "NOREPLICAS": "takes no writes, because too few replicas follow it",
    "BUSY": "is busy with a script",
    "NOPERM": "does not permit this",
}
"""Errors of a server that will do the same another time."""

# Before version 7 an error within a script comes wrapped in one of the script.
_NOT_NOW = re.compile(rf"(?:^|: -)({'|'.join(NOT_NOW)})\b")

OLDEST_VERSION = (6, 2)
"""Scripts write with `SET ... KEEPTTL`, of version 6.0; 6.2 is the oldest that this is written for."""
BLIND_EVICTION = frozenset({"allkeys-random", "volatile-random", "volatile-ttl"})
SILENCE_SECONDS = 1.0
"""How long a subscription may be silent before the server is asked whether it is still there."""
RESUBSCRIBE_SECONDS = 0.2


class RedisSettings(Settings):
    """Settings of a process that uses Redis."""

    redis_url: RedisDsn = Field(
        description="The Redis (or Valkey) server; of a cluster any of its servers, or a name of all of them."
    )
    redis_cluster: bool = Field(
        default=False,
        description="Whether that is a Redis Cluster, whose servers tell which of them has which keys.",
    )
    redis_timeout_seconds: float = Field(
        default=0.5,
        gt=0,
        description="How long connecting, and waiting for an answer, may take. A server that is silent for so long is "
        "taken to be away, and what it would have said is read from the truth until it is back.",
    )

    @field_validator("redis_cluster")
    @classmethod
    def _has_one_database(cls, is_cluster: bool, others: ValidationInfo) -> bool:
        url: RedisDsn | None = others.data.get("redis_url")
        if is_cluster and url is not None and (url.path or "/").strip("/0"):
            raise ValueError("a cluster has no database but 0, and FEED_REDIS_URL names another")
        return is_cluster


class Connection(Protocol):
    """What a client asks: `redis_connection.SharedConnection` or `redis_cluster.ClusterConnection`."""

    async def call(
        self, commands: Sequence[Command], seconds: float, *, insists: bool = False, age: float = 0
    ) -> list[Any]:
        """The replies to some commands, errors of single ones among them; raises RedisError."""
        ...

    async def call_everywhere(self, commands: Sequence[Command], seconds: float) -> list[list[Any]]:
        """The replies of each server that has keys of its own; raises RedisError."""
        ...

    def place_to_listen(self) -> Address | None:
        """A server at which everything that is published can be heard; None: the one of the URL. Raises RedisError."""
        ...

    def has(self, address: Address | None) -> bool:
        """Whether what `place_to_listen` gave is still one."""
        ...


class Redis:
    """A client. Give all commands of a step to one `run`: what is dear is the round trip.

    Where Redis is a cluster, a command without a key goes to any of its servers, and one of many keys (MGET, DEL, UNLINK,
    EXISTS, TOUCH) becomes as many commands; of scripts that work on several keys there are none.
    """

    def __init__(self, connection: Connection, reach: "_Reach", timeout_seconds: float) -> None:
        self._connection = connection
        self._reach = reach
        self._timeout = timeout_seconds

    async def run(self, *commands: Command) -> list[Any]:
        """Run commands in one round trip, and return their answers in order. Each is atomic alone, not all together.

        An answer is as the server gives it: bytes, an int, None, or a list of them.
        Commands on one key run in order, and those on others may run at the same time, on several servers; all that one
        server was given, once more where it has forgotten a script.
        A run that is cancelled, or fails, may have been executed, in part too, or may yet be.

        Raises Unavailable where Redis does not answer in time, or cannot do this now, such as write when it is full;
        DeadlineExceeded where the request's deadline has passed; ResponseError where a command is wrong.
        """
        return await self._round_trip(commands)

    async def read(self, *commands: Command, age: float) -> list[Any]:
        """Run commands that only read, as `run` does, for whom it is enough that all was so `age` seconds ago, or later.

        Of a cluster they may be answered by replicas, which share the load of a hot key. Two reads may go back in time, so
        they are of no use to whoever has to see a change, or fills in what is absent: only where what is read is told to be
        so old, as everything that is remembered for a while is.
        """
        return await self._round_trip(commands, age=age)

    async def insist(self, *commands: Command) -> list[Any]:
        """Run commands as `run` does, but try to reach a server that has been away before that is believed any longer.

        For what must not be missed by a server that is back already, as others may have noticed. While it is away each
        costs an attempt to connect, many at the same time one.
        """
        return await self._round_trip(commands, insists=True)

    async def run_everywhere(self, *commands: Command) -> list[list[Any]]:
        """Run commands without keys on every server that has keys of its own: the answers of each, as of `run`."""
        seconds = deadline.timeout_for_call(self._timeout)
        with telemetry.client_span("redis", _attributes(commands)):
            try:
                answers = await self._connection.call_everywhere(commands, seconds)
            except RedisError as error:
                raise _unavailable(error) from error
            return list(map(_checked, answers))

    async def _round_trip(self, commands: Sequence[Command], *, insists: bool = False, age: float = 0) -> list[Any]:
        if not commands:
            return []
        seconds = deadline.timeout_for_call(self._timeout)
        with telemetry.client_span("redis", _attributes(commands)):
            try:
                replies = await self._connection.call(commands, seconds, insists=insists, age=age)
            except RedisError as error:
                raise _unavailable(error) from error
            return _checked(replies)

    async def ping(self) -> None:
        """Raise Unavailable where Redis does not answer."""
        await self.run(("PING",))

    @asynccontextmanager
    async def subscribed(
        self, channel: str, heard: Callable[[bytes], None], gap: Callable[[], None]
    ) -> AsyncGenerator[None]:
        """Within the block, call `heard` with every message that is published on a channel.

        `gap` is called whenever messages may have been missed, at the beginning and after every interruption, once new
        ones are being heard. An absent server is waited for in the background. What either function raises is logged, and
        is an interruption.
        """
        listening = asyncio.create_task(self._listen_always(channel, heard, gap))
        try:
            yield
        finally:
            await _end(listening)

    async def _listen_always(self, channel: str, heard: Callable[[bytes], None], gap: Callable[[], None]) -> None:
        failing = False

        def subscribed() -> None:
            nonlocal failing
            failing = False
            gap()

        while True:
            try:
                place = self._connection.place_to_listen()
                async with self._reach.client(place) as client, client.pubsub() as subscription:
                    await self._listen(subscription, channel, place, heard, subscribed)
            except (RedisError, TimeoutError) as error:
                # Said once, not at every attempt.
                logger.log(logging.DEBUG if failing else logging.INFO, "not subscribed to %s: %s", channel, error)
                failing = True
            except Exception:
                logger.exception("listening to %s failed", channel)
            await asyncio.sleep(RESUBSCRIBE_SECONDS)

    async def _listen(
        self,
        subscription: Any,
        channel: str,
        place: Address | None,
        heard: Callable[[bytes], None],
        gap: Callable[[], None],
    ) -> None:
        """Listen until the connection breaks (RedisError), or the server does not even answer a ping (TimeoutError)."""
        async with asyncio.timeout(self._timeout):
            await subscription.subscribe(channel)
        asked = False
        while True:
            async with asyncio.timeout(SILENCE_SECONDS + self._timeout):
                message = await subscription.get_message(timeout=SILENCE_SECONDS)
                if message is None:
                    if asked:
                        raise TimeoutError("the server does not answer")
                    if not self._connection.has(place):
                        raise RedisConnectionError("the server is no part of the cluster any more")
                    await subscription.ping()
            asked = message is None
            if message is None:
                continue
            if message["type"] == "subscribe":
                gap()
            elif message["type"] == "message":
                heard(message["data"])


class _Reach:
    """Makes connections to the server of the URL, or to others as to that one. See `redis_cluster.Reach`."""

    def __init__(self, settings: RedisSettings) -> None:
        pool = cast("Any", redis.ConnectionPool).from_url(
            str(settings.redis_url),
            protocol=2,
            # Without a name to tell, and a password, a connection can be written to before the server has said anything.
            driver_info=None,
            socket_connect_timeout=settings.redis_timeout_seconds,
            socket_timeout=None,
            retry=Retry(NoBackoff(), 0),
        )
        self._kind = pool.connection_class
        self._options: dict[str, Any] = pool.connection_kwargs

    def __call__(self, address: Address | None = None, *, reads_replica: bool = False) -> AbstractConnection:
        more = {"redis_connect_func": _read_from_replica} if reads_replica else {}
        return self._kind(**self._options_for(address), **more)

    def client(self, address: Address | None) -> Any:
        """A client of redis-py with a connection of its own."""
        pool = cast("Any", redis.ConnectionPool)(self._kind, **self._options_for(address))
        return cast("Any", redis.Redis).from_pool(pool)

    def _options_for(self, address: Address | None) -> dict[str, Any]:
        return self._options if address is None else {**self._options, "host": address[0], "port": address[1]}


async def _read_from_replica(connection: Any) -> None:
    await connection.on_connect()
    await connection.send_command("READONLY")
    await connection.read_response()


@asynccontextmanager
async def connect(settings: RedisSettings) -> AsyncGenerator[Redis]:
    """Open a client. A server that is away delays nothing here, and is connected to when it comes."""
    reach, timeout = _Reach(settings), settings.redis_timeout_seconds
    connection = ClusterConnection(reach, timeout) if settings.redis_cluster else SharedConnection(reach, timeout)
    keeping = asyncio.create_task(connection.keep())
    try:
        yield Redis(connection, reach, timeout)
    finally:
        await _end(keeping)


async def report_settings(redis: Redis) -> None:
    """Log a warning for every setting of a server that would hurt, once at start-up; a good one is passed in silence.

    Checked are the version, and what happens when memory is full. The server's limits of listpacks, which decide how
    compact its sorted sets, hashes and lists are, do not matter here: every value is a packed string (`keys`).

    A server that is away, or does not tell, as managed ones may not, costs no more than a line in the log.
    """
    try:
        servers = await redis.run_everywhere(("INFO", "server"), ("INFO", "memory"))
    except Unavailable as error:
        logger.info("the settings of Redis were not checked: %s", error)
        return
    except ResponseError as error:
        logger.info("Redis does not tell its settings, so they were not checked: %s", error)
        return
    # The servers of a cluster are alike, mostly: what is said of one is not said of each.
    for problem in dict.fromkeys(problem for sections in servers for problem in problems_of(b"".join(sections))):
        logger.warning(problem)


def problems_of(info: bytes) -> list[str]:
    """What would hurt about a server that says this of itself (the sections `server` and `memory` of INFO)."""
    lines = info.decode(errors="replace").splitlines()
    facts = {name: value for name, _, value in (line.partition(":") for line in lines)}
    problems: list[str] = []
    version, policy = facts.get("redis_version", ""), facts.get("maxmemory_policy", "")
    if (numbers := re.match(r"(\d+)\.(\d+)", version)) and tuple(map(int, numbers.groups())) < OLDEST_VERSION:
        problems.append(f"Redis is version {version}; 6.2 or later is needed (SET with KEEPTTL within scripts)")
    if facts.get("maxmemory", "0") != "0" and policy == "noeviction":
        problems.append("Redis refuses writes when its memory is full (noeviction): set maxmemory-policy allkeys-lru")
    if policy in BLIND_EVICTION:
        problems.append(
            f"Redis evicts whatever comes first when its memory is full ({policy}), timelines of active viewers too: "
            "set maxmemory-policy allkeys-lru"
        )
    return problems


def _attributes(commands: Sequence[Command]) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {"db.system.name": "redis", "db.operation.batch.size": len(commands)}
    if len(commands) == 1:
        attributes["db.operation.name"] = str(commands[0][0])
    return attributes


def _unavailable(error: RedisError) -> Unavailable:
    # What a driver says is for the cause, which is logged; it tells of addresses and users.
    return Unavailable.of_dependency("redis", *["does not answer"] * isinstance(error, RedisTimeoutError))


def _checked(replies: list[Any]) -> list[Any]:
    for reply in replies:
        if isinstance(reply, RedisError):
            raise _domain_error(reply)
    return replies


def _domain_error(error: RedisError) -> Exception:
    text = f"{error.status_code} {error}" if error.status_code else str(error)
    found = _NOT_NOW.search(text)
    if found is None:
        return error
    unavailable = Unavailable.of_dependency("redis", NOT_NOW[found[1]])
    unavailable.__cause__ = error
    return unavailable


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
