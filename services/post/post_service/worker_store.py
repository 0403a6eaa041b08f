"""The leases of worker numbers in PostgreSQL."""

from datetime import timedelta

from feedkit.postgres import Database

from post_service.worker_lease import Claim, Grant

# The ceiling is bounded by the database's clock as well, so that no clock that is far ahead can use up the future of a
# number. Taken is the number that has been unused for longest; MATERIALIZED, so that one is locked and no more.
_TAKE = """
WITH clock AS MATERIALIZED (
    SELECT now, (extract(epoch FROM now) * 1000)::bigint AS ms FROM clock_timestamp() AS now
), free AS MATERIALIZED (
    SELECT w.worker, w.ceiling_ms FROM id_workers AS w, clock
    WHERE (w.holder IS NULL OR w.expires_at <= clock.now) AND w.ceiling_ms <= $2::bigint
    ORDER BY w.ceiling_ms, w.worker
    LIMIT 1
    FOR UPDATE OF w SKIP LOCKED
)
UPDATE id_workers AS w
SET holder = $1,
    expires_at = clock.now + $5::interval,
    ceiling_ms = greatest(w.ceiling_ms, least($2::bigint + $3::bigint, clock.ms + $3::bigint + $4::bigint))
FROM free, clock
WHERE w.worker = free.worker
RETURNING w.worker, free.ceiling_ms AS floor_ms, w.ceiling_ms, clock.ms AS table_ms
"""

# Whether it has expired does not matter as long as nobody else has taken it.
_RENEW = """
WITH clock AS MATERIALIZED (
    SELECT now, (extract(epoch FROM now) * 1000)::bigint AS ms FROM clock_timestamp() AS now
)
UPDATE id_workers AS w
SET expires_at = clock.now + $5::interval,
    ceiling_ms = greatest(w.ceiling_ms, least($2::bigint + $3::bigint, clock.ms + $3::bigint + $4::bigint))
FROM clock
WHERE w.worker = $6 AND w.holder = $1
RETURNING w.worker, w.ceiling_ms AS floor_ms, w.ceiling_ms, clock.ms AS table_ms
"""

_RELEASE = "UPDATE id_workers SET holder = NULL, ceiling_ms = $3 WHERE worker = $1 AND holder = $2"


class WorkerStore:
    """Implements `worker_lease.WorkerTable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, claim: Claim) -> Grant | None:
        """Grant a lease or prolong one; None if no number is free, or the number has another holder."""
        arguments = [
            claim.holder,
            claim.now_ms,
            claim.lease_ms,
            claim.max_skew_ms,
            timedelta(milliseconds=claim.lease_ms),
        ]
        async with self._database.connection() as connection:
            if claim.worker is None:
                row = await connection.fetchrow(_TAKE, *arguments)
            else:
                row = await connection.fetchrow(_RENEW, *arguments, claim.worker)
        return Grant(*row) if row else None

    async def release(self, claim: Claim, unused_ms: int) -> None:
        """End a lease, unless the number has another holder."""
        async with self._database.connection() as connection:
            await connection.execute(_RELEASE, claim.worker, claim.holder, unused_ms)
