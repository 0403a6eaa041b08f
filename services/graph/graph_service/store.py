"""The reads of `graph` in PostgreSQL, users and activity; the changes of everything else are in stores of their own.

A deleted user, whose `standing` is 2, does not exist here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from feedkit.postgres import Database

from graph_service.activity import ActiveUsers
from graph_service.hidden_authors import Hiding
from graph_service.home_views import HomeView
from graph_service.relationships import Ties
from graph_service.user_lists import ActiveIds, Ids, Listed, Side
from graph_service.users import Standing, User
from graph_service.viewer_context import ViewerContext

_CREATE_USER = "INSERT INTO users (name) VALUES ($1) RETURNING id"

_USER = """
u.id, u.name, (SELECT coalesce(sum(count), 0)::bigint FROM follower_counts WHERE user_id = u.id), u.following_count,
u.standing
"""

_USERS = f"SELECT {_USER} FROM users u WHERE u.id = ANY ($1::bigint[]) AND u.standing <> 2"  # noqa: S608 (our own text)

_BASIC_USERS = "SELECT id, name, 0, 0, standing FROM users WHERE id = ANY ($1::bigint[]) AND standing <> 2"

_USER_EXISTS = "SELECT EXISTS (SELECT FROM users WHERE id = $1 AND standing <> 2)"

# The walk along the index goes on until the page is full: of whoever is met, one row is looked up, whatever a plan might
# rather do to many. Followers are counted for the page alone.
_LIST = f"""
SELECT page.seq, {_USER}
FROM (
    SELECT edge.seq, found.*
    FROM {{edges}} AS edge
    CROSS JOIN LATERAL (
        SELECT id, name, following_count, standing FROM users WHERE id = edge.{{listed}} AND standing <> 2 LIMIT 1
    ) AS found
    WHERE edge.{{of}} = (SELECT id FROM users WHERE id = $1 AND standing <> 2) AND edge.seq < $2
    ORDER BY edge.seq DESC
    LIMIT $3
) AS page
CROSS JOIN LATERAL (SELECT page.id, page.name, page.following_count, page.standing) AS u
ORDER BY page.seq DESC
"""  # noqa: S608
_FAVOURITES = "(SELECT * FROM follows WHERE favourite)"
_LISTS: Mapping[Side, str] = {
    Side.FOLLOWERS: _LIST.format(edges="follows", of="followee_id", listed="follower_id"),
    Side.FOLLOWEES: _LIST.format(edges="follows", of="follower_id", listed="followee_id"),
    Side.BLOCKED: _LIST.format(edges="blocks", of="blocker_id", listed="blocked_id"),
    Side.MUTED: _LIST.format(edges="mutes", of="muter_id", listed="muted_id"),
    Side.FAVOURITES: _LIST.format(edges=_FAVOURITES, of="follower_id", listed="followee_id"),
}

_PAGE = "SELECT seq, {listed} AS user_id FROM follows WHERE {of} = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3"
_PAGES: Mapping[Side, str] = {
    Side.FOLLOWERS: _PAGE.format(of="followee_id", listed="follower_id"),
    Side.FOLLOWEES: _PAGE.format(of="follower_id", listed="followee_id"),
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

# As many users in a row as a page holds are looked at, whether they are active or not.
_ACTIVE_USERS = """
WITH page AS MATERIALIZED (
    SELECT user_id, seen_on FROM activity WHERE user_id > $2 ORDER BY user_id LIMIT $3
)
SELECT
    ARRAY(
        SELECT user_id FROM page WHERE seen_on >= (now() AT TIME ZONE 'UTC')::date - $1::int ORDER BY user_id
    ),
    CASE WHEN count(*) = $3 THEN max(user_id) END
FROM page
"""

# Whoever follows or blocks the viewer is probed one by one: where a plan went through all of them instead, the viewer might
# be a celebrity.
_TIES = """
WITH asked AS MATERIALIZED (
    SELECT id FROM users WHERE id = ANY ($2::bigint[]) AND standing <> 2
)
SELECT
    ARRAY(SELECT followee_id FROM follows WHERE follower_id = viewer.id AND followee_id IN (SELECT id FROM asked)),
    ARRAY(
        SELECT asked.id FROM asked
        CROSS JOIN LATERAL (
            SELECT FROM follows WHERE follower_id = asked.id AND followee_id = viewer.id LIMIT 1
        ) AS follow
    ),
    ARRAY(SELECT muted_id FROM mutes WHERE muter_id = viewer.id AND muted_id IN (SELECT id FROM asked)),
    ARRAY(SELECT blocked_id FROM blocks WHERE blocker_id = viewer.id AND blocked_id IN (SELECT id FROM asked)),
    ARRAY(
        SELECT asked.id FROM asked
        CROSS JOIN LATERAL (
            SELECT FROM blocks WHERE blocker_id = asked.id AND blocked_id = viewer.id LIMIT 1
        ) AS block
    ),
    ARRAY(
        SELECT followee_id FROM follows
        WHERE follower_id = viewer.id AND favourite AND followee_id IN (SELECT id FROM asked)
    )
FROM users viewer
WHERE viewer.id = $1 AND viewer.standing <> 2
"""

# The rows that need no writing are left out beforehand: ON CONFLICT would lock them, and a lock is a write. The user's row
# is locked where there is something to write, so that no activity is recorded behind a deletion.
_RECORD_ACTIVITY = """
WITH today AS (
    SELECT (now() AT TIME ZONE 'UTC')::date AS day
), recorded AS (
    INSERT INTO activity (user_id, seen_on)
    SELECT id, day
    FROM today, (
        SELECT u.id FROM users u, today
        WHERE u.id = $1 AND u.standing <> 2
            AND NOT EXISTS (SELECT FROM activity a WHERE a.user_id = u.id AND a.seen_on >= day)
        FOR SHARE OF u
    ) AS seen
    ON CONFLICT (user_id) DO UPDATE SET seen_on = EXCLUDED.seen_on WHERE activity.seen_on < EXCLUDED.seen_on
)
SELECT EXISTS (SELECT FROM users WHERE id = $1 AND standing <> 2)
"""

# No row for an unknown viewer, empty arrays for one who follows nobody.
_UNMUTED = """
ARRAY(
    SELECT followee_id FROM {follows} AS f
    WHERE follower_id = viewer.id
        AND NOT EXISTS (SELECT FROM mutes m WHERE m.muter_id = viewer.id AND m.muted_id = f.followee_id)
    ORDER BY followee_id
)
"""
_VIEWER_CONTEXT = f"""
SELECT {_UNMUTED.format(follows="follows")}, {_UNMUTED.format(follows=_FAVOURITES)}, viewer.home_view
FROM users viewer
WHERE viewer.id = $1 AND viewer.standing <> 2
"""  # noqa: S608

_HIDING = """
SELECT
    ARRAY(SELECT blocked_id FROM blocks WHERE blocker_id = viewer.id),
    ARRAY(SELECT blocker_id FROM blocks WHERE blocked_id = viewer.id ORDER BY seq DESC LIMIT $2),
    ARRAY(SELECT muted_id FROM mutes WHERE muter_id = viewer.id)
FROM users viewer
WHERE viewer.id = $1 AND viewer.standing <> 2
"""


class Store:
    """Users, activity, and the reads of follows, blocks and mutes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create_user(self, name: str) -> User:
        async with self._database.connection() as connection:
            return User(await connection.fetchval(_CREATE_USER, name), name)

    async def users(self, user_ids: Sequence[int]) -> list[User]:
        async with self._database.connection() as connection:
            return [_user(row) for row in await connection.fetch(_USERS, user_ids)]

    async def user_names(self, user_ids: Sequence[int]) -> list[User]:
        async with self._database.connection() as connection:
            return [_user(row) for row in await connection.fetch(_BASIC_USERS, user_ids)]

    async def user_exists(self, user_id: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(_USER_EXISTS, user_id)

    async def list_users(self, side: Side, user_id: int, before: int, limit: int) -> list[Listed]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(_LISTS[side], user_id, before, limit)
        return [Listed(position, _user(user)) for position, *user in rows]

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
        return None if row is None else Ties(*map(frozenset, row))

    async def record_activity(self, user_id: int) -> bool:
        async with self._database.connection() as connection:
            return await connection.fetchval(_RECORD_ACTIVITY, user_id)

    async def active_users(self, active_days: int, after: int, limit: int) -> ActiveUsers:
        async with self._database.connection() as connection:
            [row] = await connection.fetch(_ACTIVE_USERS, active_days, after, limit)
        return ActiveUsers(*row)

    async def viewer_context(self, viewer_id: int) -> ViewerContext | None:
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_VIEWER_CONTEXT, viewer_id)
        if row is None:
            return None
        followee_ids, favourite_ids, home_view = row
        return ViewerContext(followee_ids, favourite_ids, HomeView(home_view))

    async def hiding(self, viewer_id: int, most_blockers: int) -> Hiding:
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_HIDING, viewer_id, most_blockers)
        return Hiding([], [], []) if row is None else Hiding(*row)


def _user(row: Iterable[Any]) -> User:
    user_id, name, follower_count, following_count, standing = row
    return User(user_id, name, follower_count, following_count, Standing(standing))
