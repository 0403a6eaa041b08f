"""The tables of `graph` in PostgreSQL, except for the changes of follows, which are in `follow_store`."""

from collections.abc import Mapping, Sequence

from feedkit.postgres import Database

from graph_service.follow_lists import ActiveIds, Ids, Listed, Side
from graph_service.relationships import Ties
from graph_service.users import User

_CREATE_USER = "INSERT INTO users (name) VALUES ($1) RETURNING id"

_USER = """
u.id, u.name, (SELECT coalesce(sum(count), 0)::bigint FROM follower_counts WHERE user_id = u.id), u.following_count
"""

_USERS = f"SELECT {_USER} FROM users u WHERE u.id = ANY ($1::bigint[])"  # noqa: S608 (our own text)

_USER_NAMES = "SELECT id, name FROM users WHERE id = ANY ($1::bigint[])"

_USER_EXISTS = "SELECT EXISTS (SELECT FROM users WHERE id = $1)"

_PAGE = "SELECT seq, {listed} AS user_id FROM follows WHERE {of} = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"
_PAGES: Mapping[Side, str] = {
    Side.FOLLOWERS: _PAGE.format(of="followee_id", listed="follower_id"),
    Side.FOLLOWEES: _PAGE.format(of="follower_id", listed="followee_id"),
}

# The page is cut out of the index before users are joined to it and their followers counted.
_LISTS: Mapping[Side, str] = {
    side: f"SELECT seq, {_USER} FROM ({page}) AS page JOIN users u ON u.id = page.user_id ORDER BY seq DESC"  # noqa: S608
    for side, page in _PAGES.items()
}

# One array instead of rows: a third of the CPU here.
_ID_PAGES: Mapping[Side, str] = {
    side: f"SELECT array_agg(user_id ORDER BY seq DESC), min(seq) FROM ({page}) AS page"  # noqa: S608
    for side, page in _PAGES.items()
}

# The ids go into one scan of the index as an array: half the time of a lookup for each, and whatever statistics say of
# their number, a plan never reads the whole table of activity.
_ACTIVE_FOLLOWERS = f"""
WITH page AS MATERIALIZED ({_PAGES[Side.FOLLOWERS]})
SELECT
    ARRAY(
        SELECT user_id
        FROM activity
        WHERE user_id = ANY (ARRAY(SELECT user_id FROM page))
            AND seen_on >= (now() AT TIME ZONE 'UTC')::date - $4::int
    ),
    CASE WHEN count(*) = $3 THEN min(seq) END
FROM page
"""  # noqa: S608

# Followers are probed one by one: where a plan went through all followers instead, the viewer might be a celebrity.
_TIES = """
SELECT
    ARRAY(SELECT followee_id FROM follows WHERE follower_id = viewer.id AND followee_id = ANY ($2::bigint[])),
    ARRAY(
        SELECT asked.id
        FROM unnest($2::bigint[]) AS asked (id)
        CROSS JOIN LATERAL (
            SELECT FROM follows WHERE follower_id = asked.id AND followee_id = viewer.id LIMIT 1
        ) AS follow
    )
FROM users viewer
WHERE viewer.id = $1
"""

# The rows that need no writing are left out beforehand: ON CONFLICT would lock them, and a lock is a write.
_RECORD_ACTIVITY = """
WITH today AS (
    SELECT (now() AT TIME ZONE 'UTC')::date AS day
), recorded AS (
    INSERT INTO activity (user_id, seen_on)
    SELECT u.id, day FROM users u, today
    WHERE u.id = $1 AND NOT EXISTS (SELECT FROM activity a WHERE a.user_id = u.id AND a.seen_on >= day)
    ON CONFLICT (user_id) DO UPDATE SET seen_on = EXCLUDED.seen_on WHERE activity.seen_on < EXCLUDED.seen_on
)
SELECT EXISTS (SELECT FROM users WHERE id = $1)
"""

# No row for an unknown viewer, an empty array for one who follows nobody.
_FOLLOWEES = """
SELECT ARRAY(SELECT followee_id FROM follows WHERE follower_id = viewer.id ORDER BY followee_id)
FROM users viewer
WHERE viewer.id = $1
"""


class Store:
    """Users, the reads of follows, and activity."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_user(self, name: str) -> User:
        async with self._database.connection() as connection:
            return User(await connection.fetchval(_CREATE_USER, name), name)

    async def users(self, user_ids: Sequence[int]) -> list[User]:
        async with self._database.connection() as connection:
            return [User(*row) for row in await connection.fetch(_USERS, user_ids)]

    async def user_names(self, user_ids: Sequence[int]) -> list[User]:
        async with self._database.connection() as connection:
            return [User(*row) for row in await connection.fetch(_USER_NAMES, user_ids)]

    async def user_exists(self, user_id: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(_USER_EXISTS, user_id)

    async def list_follows(self, side: Side, user_id: int, before: int, limit: int) -> list[Listed]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(_LISTS[side], user_id, before, limit)
        return [Listed(position, User(*user)) for position, *user in rows]

    async def follow_ids(self, side: Side, user_id: int, before: int, limit: int) -> Ids | None:
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_ID_PAGES[side], user_id, before, limit)
        return None if row is None or row[0] is None else Ids(*row)

    async def active_follower_ids(self, user_id: int, active_days: int, before: int, limit: int) -> ActiveIds:
        async with self._database.connection() as connection:
            [row] = await connection.fetch(_ACTIVE_FOLLOWERS, user_id, before, limit, active_days)
        return ActiveIds(*row)

    async def ties(self, viewer_id: int, user_ids: Sequence[int]) -> Ties | None:
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_TIES, viewer_id, user_ids)
        return None if row is None else Ties(frozenset(row[0]), frozenset(row[1]))

    async def record_activity(self, user_id: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(_RECORD_ACTIVITY, user_id)

    async def followees(self, viewer_id: int) -> Sequence[int] | None:
        async with self._database.connection() as connection:
            return await connection.fetchval(_FOLLOWEES, viewer_id)
