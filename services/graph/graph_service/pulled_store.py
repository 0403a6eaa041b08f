"""The index of pulled authors in PostgreSQL.

Rows of authors are locked in the order of their ids, and the version's before them, so that nobody waits in a circle.
"""

from collections.abc import Sequence

from feedkit.postgres import Database

from graph_service.pulled_authors import Decision, IndexChange, ShrunkAuthor

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
    (SELECT coalesce(sum(count), 0)::bigint FROM follower_counts WHERE user_id = asked.id),
    asked.id IN (SELECT id FROM users WHERE id = ANY ($1::bigint[]) AND standing = 2)
FROM unnest($1::bigint[]) AS asked (id)
"""

# The version's row stays locked until the commit.
NEXT_VERSION = "UPDATE pulled_authors_version SET version = version + 1 RETURNING version"

# A statement of its own, because only one that starts when the version is held sees who has left before. Somebody may have
# entered since they were looked for.
ENTER = """
WITH back AS (
    DELETE FROM pulled_authors_left WHERE author_id = ANY ($1::bigint[]) RETURNING author_id, sequence
)
INSERT INTO pulled_authors (author_id, entered_version, sequence)
SELECT entering.id, $2::bigint, coalesce(back.sequence, 0) + 1
FROM unnest($1::bigint[]) AS entering (id) LEFT JOIN back ON back.author_id = entering.id
ORDER BY entering.id
ON CONFLICT (author_id) DO UPDATE
SET sequence = greatest(pulled_authors.sequence + 1, excluded.sequence), decided_at = now()
"""

# The version's row is held first here, too; where there is nobody to leave, it is left alone. A decision that commits while
# this waits has another sequence, and its author stays. Without a sequence the author leaves whatever was decided.
LEAVE = """
WITH held AS MATERIALIZED (
    SELECT FROM pulled_authors_version
    WHERE EXISTS (SELECT FROM pulled_authors WHERE author_id = $1 AND sequence = coalesce($2::bigint, sequence))
    FOR NO KEY UPDATE
), gone AS (
    DELETE FROM pulled_authors USING held
    WHERE author_id = $1 AND sequence = coalesce($2::bigint, sequence)
    RETURNING author_id, sequence
), next AS (
    UPDATE pulled_authors_version SET version = version + 1 FROM gone RETURNING version
)
INSERT INTO pulled_authors_left (author_id, left_version, sequence)
SELECT gone.author_id, next.version, gone.sequence FROM gone, next
ON CONFLICT (author_id) DO UPDATE SET left_version = excluded.left_version, sequence = excluded.sequence
RETURNING true
"""

# One statement, so that version and authors are of one moment. A version that is yet to come was made before the database
# was set back; its reader is told everything. Who knows nothing need not be told who is not in it.
_CHANGES = """
WITH known AS (
    SELECT version, CASE WHEN $1::bigint <= version THEN $1 ELSE 0 END AS since FROM pulled_authors_version
)
SELECT version, ARRAY(
    SELECT author_id FROM pulled_authors WHERE entered_version > since ORDER BY entered_version, author_id
), ARRAY(
    SELECT author_id FROM pulled_authors_left l
    WHERE left_version > since AND $1 > 0
        AND NOT EXISTS (SELECT FROM pulled_authors p WHERE p.author_id = l.author_id)
    ORDER BY left_version, author_id
)
FROM known
"""

# Followers are added up for authors in the index alone, each by an index.
_SHRUNK = """
SELECT author_id, followers.count, sequence
FROM pulled_authors
CROSS JOIN LATERAL (
    SELECT coalesce(sum(count), 0)::bigint AS count FROM follower_counts WHERE user_id = author_id
) AS followers
WHERE followers.count < $1
ORDER BY followers.count, author_id
LIMIT $2
"""


class PulledAuthorStore:
    """Implements `pulled_authors.PulledAuthorStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def decide(self, author_ids: Sequence[int]) -> list[Decision]:
        async with self._database.connection() as connection:
            return [Decision(*row) for row in await connection.fetch(DECIDE, author_ids)]

    async def enter(self, author_ids: Sequence[int]) -> None:
        async with self._database.transaction() as connection:
            version = await connection.fetchval(NEXT_VERSION)
            await connection.execute(ENTER, author_ids, version)

    async def leave(self, author_id: int, sequence: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(LEAVE, author_id, sequence) is not None

    async def changes_since(self, version: int) -> IndexChange:
        async with self._database.connection() as connection:
            [row] = await connection.fetch(_CHANGES, version)
        return IndexChange(*row)

    async def shrunk(self, follower_count: int, limit: int) -> list[ShrunkAuthor]:
        async with self._database.connection() as connection:
            return [ShrunkAuthor(*row) for row in await connection.fetch(_SHRUNK, follower_count, limit)]
