"""The gateway as an ASGI application: the routes, and the layers that every request goes through."""

from http import HTTPStatus

from starlette.requests import Request
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.answers import Answer, ok
from gateway.body_limit import BodyLimit
from gateway.config import GatewaySettings
from gateway.measuring import measured
from gateway.problems import ROUTE_NOT_FOUND, Problem, Problems
from gateway.resource import Paths, Resource
from gateway.routes.blocks import Blocks
from gateway.routes.engagement import Engagement
from gateway.routes.favourites import Favourites
from gateway.routes.feed import Feed
from gateway.routes.following import Following
from gateway.routes.health import Health
from gateway.routes.mutes import Mutes
from gateway.routes.posts import Posts
from gateway.routes.users import Users
from gateway.services import Services
from gateway.tracing import Tracing


def create(services: Services, health: Health, settings: GatewaySettings) -> ASGIApp:
    """The application. The feed comes first, because routes are tried in turn and it is what most requests want."""
    paths = {
        **Feed(services).paths,
        **Posts(services).paths,
        **Engagement(services.post).paths,
        **Users(services).paths,
        **Following(services.graph).paths,
        **Favourites(services.graph).paths,
        **Blocks(services.graph).paths,
        **Mutes(services.graph).paths,
        **health.paths,
    }
    paths |= _index(paths)
    routes = [Route(path, Resource(methods, settings.request_seconds)) for path, methods in paths.items()]
    router = Router(routes, redirect_slashes=False, default=_no_route)
    return measured(Tracing(Problems(BodyLimit(router, settings.http_max_body_bytes))))


def _index(paths: Paths) -> Paths:
    table = {path: sorted(methods) for path, methods in paths.items()}

    async def index(_request: Request) -> Answer:
        return ok({"name": "home timeline", "documentation": "gateway/README.md", "paths": table})

    return {"/": {"GET": index}}


async def _no_route(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Problem(HTTPStatus.NOT_FOUND, ROUTE_NOT_FOUND, "there is nothing at this path")
