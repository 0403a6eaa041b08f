"""`python -m graph_service` serves, `... relay` publishes the outbox, `... migrate` brings the database up to date."""

from importlib.resources import files

import grpc.aio
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.outbox.v1 import outbox_pb2_grpc
from feedkit import outbox, outbox_relay, postgres, redis
from feedkit.invalidation import Invalidation
from feedkit.outbox import OutboxServicer
from feedkit.outbox_relay import RelaySettings
from feedkit.server import Process, Role, main

from graph_service.activity import Activity
from graph_service.config import GraphSettings
from graph_service.context_store import ContextStore
from graph_service.follow_lists import FollowLists
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.pulled_authors import PulledAuthors
from graph_service.pulled_store import PulledAuthorStore
from graph_service.relationships import Relationships
from graph_service.rpc import Servicer
from graph_service.store import Store
from graph_service.users import Users
from graph_service.viewer_context import ViewerContexts

SERVICE = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
MIGRATIONS = files("graph_service") / "migrations"


async def run(process: Process, settings: GraphSettings) -> None:
    database = await process.enter(postgres.database(settings))
    invalidation = await process.enter(Invalidation(await process.enter(redis.connect(settings))))
    contexts = ContextStore(invalidation)
    store = Store(database)
    servicer = Servicer(
        users=Users(store),
        follows=Follows(FollowStore(database), contexts, settings.following_limit),
        follow_lists=FollowLists(store),
        relationships=Relationships(store),
        activity=Activity(store),
        pulled_authors=PulledAuthors(PulledAuthorStore(database)),
        viewer_contexts=ViewerContexts(store),
    )

    def register(server: grpc.aio.Server) -> None:
        graph_pb2_grpc.add_GraphServiceServicer_to_server(servicer, server)
        outbox_pb2_grpc.add_OutboxServiceServicer_to_server(OutboxServicer(database), server)

    await process.serve(
        settings,
        register,
        [SERVICE.full_name, outbox.SERVICE.full_name],
        ready=[postgres.migrated(database, MIGRATIONS)],
    )


async def relay(process: Process, settings: RelaySettings) -> None:
    """Publish the outbox until stopped."""
    await outbox_relay.run(process, settings, MIGRATIONS)


async def migrate(settings: GraphSettings) -> None:
    await postgres.migrate(settings, MIGRATIONS)


if __name__ == "__main__":
    main("graph", GraphSettings, run, {"migrate": migrate}, {"relay": Role(RelaySettings, relay)})
