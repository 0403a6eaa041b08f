"""Which replicas of a Redis Cluster are in step with their primaries, proved anew all the time.

A replica says nothing of how old its answers are, and may be any time behind. But both count the bytes of one history of
writes, which has a name. What a replica has when it tells a count, its primary had by the time that it told the same count
or a lower one of the same history: so the replica has all that its primary had when the primary was asked, and forgets none
of it. Only our own clock is needed, and nobody's estimate.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from redis.exceptions import RedisError

from feedkit.redis_cluster_slots import Address, Topology
from feedkit.redis_connection import SharedConnection
from feedkit.redis_scripts import Command

logger = logging.getLogger(__name__)

CHECK_SECONDS = 0.25
"""Between comparisons."""
UNWANTED_SECONDS = 10.0
"""Without a reader for so long, nothing is compared."""
SAMPLES = 8
"""How many counts of a primary are remembered, so that a replica some seconds behind can be told from one that is lost."""

_PART: Command = ("INFO", "replication")


class _Told(NamedTuple):
    """What a primary told of its history."""

    history: str
    written: int
    at: float
    """When it was asked."""


class Replicas:
    """What is known of the replicas, as long as `keep` runs."""

    def __init__(
        self,
        topology: Callable[[], Topology | None],
        primary: Callable[[Address], SharedConnection],
        replica: Callable[[Address], SharedConnection],
        timeout_seconds: float,
    ) -> None:
        """`primary` and `replica` give the connections to servers; that to a replica may be read from."""
        self._topology = topology
        self._primary = primary
        self._replica = replica
        self._timeout = timeout_seconds
        self._told: dict[Address, deque[_Told]] = {}
        """What each primary told lately."""
        self._has: dict[Address, tuple[Address, float]] = {}
        """By replica: its primary, and the time from which it has everything."""
        self._wanted_at = -UNWANTED_SECONDS
        self._wanted = asyncio.Event()

    def in_step(self, primary: Address, age: float) -> Address | None:
        """A replica that has all that its primary had `age` seconds ago, if one is known."""
        now = asyncio.get_running_loop().time()
        self._wanted_at = now
        self._wanted.set()
        fit = [replica for replica, (of, since) in self._has.items() if of == primary and now - since <= age]
        return random.choice(fit) if fit else None  # noqa: S311 - spreads load

    async def keep(self) -> None:
        """Compare, as long as somebody wants to know, until cancelled."""
        while True:
            await self._wanted.wait()
            if asyncio.get_running_loop().time() - self._wanted_at > UNWANTED_SECONDS:
                self._wanted.clear()
                continue
            try:
                await self._compare_all()
            except Exception:
                logger.exception("comparing replicas with their primaries failed")
            await asyncio.sleep(CHECK_SECONDS)

    async def _compare_all(self) -> None:
        topology = self._topology()
        if topology is None:
            return
        of = {replica: primary for primary, replicas in topology.replicas.items() for replica in replicas}
        self._has = {replica: known for replica, known in self._has.items() if of.get(replica) == known[0]}
        self._told = {primary: told for primary, told in self._told.items() if primary in topology.replicas}
        await asyncio.gather(*(self._compare(*one) for one in topology.replicas.items() if one[1]))

    async def _compare(self, primary: Address, replicas: Sequence[Address]) -> None:
        asked_at = asyncio.get_running_loop().time()
        facts = await self._facts(self._primary(primary))
        told = self._told.setdefault(primary, deque(maxlen=SAMPLES))
        if facts.get("role") == "master":
            told.append(_Told(facts["master_replid"], int(facts["master_repl_offset"]), asked_at))
        of_replicas = await asyncio.gather(*(self._facts(self._replica(replica)) for replica in replicas))
        for replica, its in zip(replicas, of_replicas, strict=True):
            if its.get("role") == "slave" and its["master_link_status"] == "up":
                history, had = its["master_replid"], int(its["slave_repl_offset"])
                since = max((one.at for one in told if one.history == history and one.written <= had), default=0.0)
                self._has[replica] = (primary, since)

    async def _facts(self, server: SharedConnection) -> dict[str, str]:
        """What a server tells of its part; nothing where it does not answer."""
        try:
            (info,) = await server.call([_PART], self._timeout)
        except RedisError:
            return {}
        lines = info.decode().splitlines() if isinstance(info, bytes) else []
        return {name: value for name, _, value in (line.partition(":") for line in lines)}
