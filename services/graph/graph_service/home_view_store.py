"""The chosen views in PostgreSQL. `edge_store` tells of the locks."""

from feed.events.v1 import events_pb2
from feedkit import kafka, outbox
from feedkit.postgres import Connection, Database

from graph_service import edge_store
from graph_service.home_views import HomeView
from graph_service.users import Standing

_CHOOSE = """
WITH chosen AS (
    UPDATE users SET home_view = $2::smallint WHERE id = $1 AND home_view <> $2::smallint RETURNING id, home_view
)
INSERT INTO view_choices (user_id, view) SELECT id, home_view FROM chosen RETURNING user_id
"""

_CHOSEN = "SELECT home_view FROM users WHERE id = $1 AND standing <> 2"


class HomeViewStore:
    """Implements `home_views.HomeViewStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def choose(self, user_id: int, view: HomeView) -> bool | None:
        async def make(connection: Connection) -> bool | None:
            standing = (await edge_store.lock_users(connection, [user_id])).get(user_id)
            if standing in {None, Standing.DELETED}:
                return None
            changed = bool(await connection.fetch(_CHOOSE, user_id, view.value))
            if changed:
                event = events_pb2.UserEvent(user_id=user_id, kind=events_pb2.USER_EVENT_KIND_VIEW_CHOSEN)
                await outbox.append(connection, kafka.GRAPH_EVENTS, [(user_id, event)])
            return changed

        return await edge_store.change(self._database, make)

    async def chosen(self, user_id: int) -> HomeView | None:
        async with self._database.connection() as connection:
            view = await connection.fetchval(_CHOSEN, user_id)
        return None if view is None else HomeView(view)
