"""Which relay publishes which shard of an outbox: leases in PostgreSQL, by its clock, shared fairly among the relays.

Each relay tells again and again that it is alive, which renews the shards that it holds, and learns who else is. From
that alone each knows how many shards are its own: it gives back what it has too many, and takes of what is free.
"""

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from feedkit.postgres import Database

SHARDS = 8

# One statement, so that a relay is never seen alive without its shards.
_RENEW = """
WITH alive AS (
    INSERT INTO outbox_relays (id, expires_at) VALUES ($1, now() + $2::interval)
    ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at
), gone AS (
    DELETE FROM outbox_relays WHERE expires_at <= now() AND id <> $1
), held AS (
    UPDATE outbox_leases SET expires_at = now() + $2::interval WHERE holder = $1 RETURNING shard
)
SELECT
    ARRAY(SELECT shard FROM held) AS shards,
    ARRAY(SELECT id FROM outbox_relays WHERE expires_at > now() AND id <> $1) AS others
"""
_TAKE = """
UPDATE outbox_leases SET holder = $1, expires_at = now() + $2::interval
WHERE shard IN (SELECT shard FROM outbox_leases WHERE expires_at <= now() LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING shard
"""
_GIVE_BACK = """
UPDATE outbox_leases SET holder = NULL, expires_at = '-infinity' WHERE holder = $1 AND shard = ANY($2::smallint[])
"""
_LEAVE = """
WITH gone AS (DELETE FROM outbox_relays WHERE id = $1)
UPDATE outbox_leases SET holder = NULL, expires_at = '-infinity' WHERE holder = $1
"""


class Holding(NamedTuple):
    """What a relay holds, and how much of it it should."""

    shards: frozenset[int]
    share: int


def fair_share(relay: UUID, others: Collection[UUID]) -> int:
    """How many shards a relay should hold beside some others: all shares together are all shards."""
    relays = sorted({relay, *others})
    return SHARDS // len(relays) + (relays.index(relay) < SHARDS % len(relays))


class Leases:
    """The leases of one relay."""

    def __init__(self, database: Database, relay: UUID, seconds: float) -> None:
        self._database = database
        self._relay = relay
        self._lease = timedelta(seconds=seconds)

    async def renew(self) -> Holding:
        """Tell that the relay is alive, and make all that it holds last a lease longer from now."""
        async with self._database.connection() as connection:
            shards, others = (await connection.fetch(_RENEW, self._relay, self._lease))[0]
        return Holding(frozenset(shards), fair_share(self._relay, others))

    async def take(self, at_most: int) -> list[int]:
        """Take shards that nobody holds."""
        async with self._database.connection() as connection:
            return [row[0] for row in await connection.fetch(_TAKE, self._relay, self._lease, at_most)]

    async def give_back(self, shards: Sequence[int]) -> None:
        """Let others have some shards."""
        async with self._database.connection() as connection:
            await connection.execute(_GIVE_BACK, self._relay, shards)

    async def leave(self) -> None:
        """Let others have all shards, and be no relay any more."""
        async with self._database.connection() as connection:
            await connection.execute(_LEAVE, self._relay)
