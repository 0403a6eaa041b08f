"""The index of pulled authors in PostgreSQL.

Rows of authors are locked in the order of their ids, and the version's before them, so that nobody waits in a circle.
"""

from collections.abc import Sequence

from feedkit.postgres import Database

from graph_service.pulled_authors import Decision, IndexChange

# An ordinary author costs no write here: where nobody is found to be in the index, nothing is locked and nothing updated.
DECIDE = """
WITH inside AS (
    SELECT author_id FROM pulled_authors WHERE author_id = ANY ($1::bigint[]) ORDER BY author_id FOR NO KEY UPDATE
), pulled AS (
    UPDATE pulled_authors p SET sequence = p.sequence + 1, decided_at = now()
    FROM inside WHERE p.author_id = inside.author_id
    RETURNING p.author_id
)
SELECT
    asked.id,
    asked.id IN (SELECT author_id FROM pulled),
    (SELECT coalesce(sum(count), 0)::bigint FROM follower_counts WHERE user_id = asked.id)
FROM unnest($1::bigint[]) AS asked (id)
"""

# The version's row stays locked until the commit. Somebody may have entered since they were looked for.
ENTER = """
WITH next AS (
    UPDATE pulled_authors_version SET version = version + 1 RETURNING version
)
INSERT INTO pulled_authors (author_id, entered_version)
SELECT entering.id, next.version FROM next, unnest($1::bigint[]) AS entering (id) ORDER BY entering.id
ON CONFLICT (author_id) DO UPDATE SET sequence = pulled_authors.sequence + 1, decided_at = now()
"""

# One statement, so that version and authors are of one moment. A version that is yet to come was made before the database
# was set back; its reader is told everything.
_ENTERED_SINCE = """
SELECT version, ARRAY(
    SELECT author_id FROM pulled_authors
    WHERE entered_version > CASE WHEN $1::bigint <= version THEN $1 ELSE 0 END
    ORDER BY entered_version, author_id
)
FROM pulled_authors_version
"""


class PulledAuthorStore:
    """Implements `pulled_authors.PulledAuthorStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def decide(self, author_ids: Sequence[int]) -> list[Decision]:
        async with self._database.connection() as connection:
            return [Decision(*row) for row in await connection.fetch(DECIDE, author_ids)]

    async def enter(self, author_ids: Sequence[int]) -> None:
        async with self._database.connection() as connection:
            await connection.execute(ENTER, author_ids)

    async def entered_since(self, version: int) -> IndexChange:
        async with self._database.connection() as connection:
            [row] = await connection.fetch(_ENTERED_SINCE, version)
        return IndexChange(*row)
