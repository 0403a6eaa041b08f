"""Who is asking. In development mode, whoever the header `X-User-Id` says."""

import logging

from feedkit.config import Environment
from feedkit.errors import FieldViolation, Unauthenticated
from feedkit.server import StartError
from starlette.requests import Request

from gateway.config import GatewaySettings
from gateway.parameters import ID_RULE, parse_id

logger = logging.getLogger(__name__)

HEADER = "X-User-Id"


def check_mode(settings: GatewaySettings) -> None:
    """Refuse to start where believing everybody is no fit, and warn where it is. Raises StartError."""
    if settings.env is not Environment.DEVELOPMENT:
        raise StartError(
            f"FEED_AUTH_MODE={settings.auth_mode} believes whatever {HEADER} says and is for FEED_ENV=development only; "
            f"FEED_ENV is {settings.env}"
        )
    logger.warning(
        "FEED_AUTH_MODE=dev: NO AUTHENTICATION. Whoever reaches this address can act as any user by sending %s", HEADER
    )


def acting_user(request: Request) -> int:
    """The id of the acting user, who may turn out not to exist. Raises Unauthenticated without a well-formed identity."""
    user_id = viewer(request)
    if not user_id:
        raise _unauthenticated("is required")
    return user_id


def viewer(request: Request) -> int:
    """The id of whoever looks; 0 for nobody in particular. Raises Unauthenticated for a malformed identity."""
    values = request.headers.getlist(HEADER)
    if not values:
        return 0
    if len(values) > 1:
        raise _unauthenticated("must not be repeated")
    user_id = parse_id(values[0])
    if user_id is None:
        raise _unauthenticated(ID_RULE)
    return user_id


def _unauthenticated(rule: str) -> Unauthenticated:
    return Unauthenticated("UNAUTHENTICATED", f"{HEADER}: {rule}", violations=[FieldViolation(HEADER, rule)])
