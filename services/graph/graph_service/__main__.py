"""`python -m graph_service` serves, `... relay` publishes the outbox, `... migrate` brings the database up to date."""

from importlib.resources import files

import grpc.aio
from feed.graph.v1 import accounts_pb2, accounts_pb2_grpc, graph_pb2, graph_pb2_grpc
from feed.outbox.v1 import outbox_pb2_grpc
from feedkit import outbox, outbox_relay, postgres, redis
from feedkit.invalidation import Invalidation
from feedkit.outbox import OutboxServicer
from feedkit.outbox_relay import RelaySettings
from feedkit.server import Process, Role, main

from graph_service.account_store import AccountStore
from graph_service.accounts import Accounts
from graph_service.activity import Activity
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.config import GraphSettings
from graph_service.erasure import Erasure
from graph_service.erasure_store import ErasureStore
from graph_service.favourite_store import FavouriteStore
from graph_service.favourites import Favourites
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.hidden_authors import HiddenAuthorLists
from graph_service.home_view_store import HomeViewStore
from graph_service.home_views import HomeViews
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.operators import Operators
from graph_service.pulled_authors import PulledAuthors
from graph_service.pulled_store import PulledAuthorStore
from graph_service.relationships import Relationships
from graph_service.rpc import AccountServicer, Servicer
from graph_service.store import Store
from graph_service.user_lists import UserLists
from graph_service.users import Users
from graph_service.viewer_context import ViewerContexts

SERVICE = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
ACCOUNTS = accounts_pb2.DESCRIPTOR.services_by_name["AccountService"]
MIGRATIONS = files("graph_service") / "migrations"


async def run(process: Process, settings: GraphSettings) -> None:
    database = await process.enter(postgres.database(settings))
    caches = CacheStore(await process.enter(Invalidation(await process.enter(redis.connect(settings)))))
    store = Store(database)
    servicer = Servicer(
        users=Users(store),
        follows=Follows(FollowStore(database), caches, settings.following_limit),
        blocks=Blocks(BlockStore(database), caches, settings.blocking_limit),
        mutes=Mutes(MuteStore(database), caches, settings.muting_limit),
        favourites=Favourites(FavouriteStore(database), caches, settings.favourites_limit),
        home_views=HomeViews(HomeViewStore(database), caches),
        user_lists=UserLists(store, settings.graph_stream_page),
        relationships=Relationships(store),
        activity=Activity(store, settings.graph_stream_page),
        pulled_authors=PulledAuthors(PulledAuthorStore(database)),
        viewer_contexts=ViewerContexts(store),
        hidden_authors=HiddenAuthorLists(store),
        erasure=Erasure(ErasureStore(database)),
    )
    token = settings.operator_token.get_secret_value() if settings.operator_token else ""
    account_servicer = AccountServicer(Accounts(AccountStore(database), caches), Operators(token))

    def register(server: grpc.aio.Server) -> None:
        graph_pb2_grpc.add_GraphServiceServicer_to_server(servicer, server)
        accounts_pb2_grpc.add_AccountServiceServicer_to_server(account_servicer, server)
        outbox_pb2_grpc.add_OutboxServiceServicer_to_server(OutboxServicer(database), server)

    await process.serve(
        settings,
        register,
        [SERVICE.full_name, ACCOUNTS.full_name, outbox.SERVICE.full_name],
        ready=[postgres.migrated(database, MIGRATIONS)],
    )


async def relay(process: Process, settings: RelaySettings) -> None:
    """Publish the outbox until stopped."""
    await outbox_relay.run(process, settings, MIGRATIONS)


async def migrate(settings: GraphSettings) -> None:
    await postgres.migrate(settings, MIGRATIONS)


if __name__ == "__main__":
    main("graph", GraphSettings, run, {"migrate": migrate}, {"relay": Role(RelaySettings, relay)})
