"""The gateway's settings."""

from enum import StrEnum

from feedkit.config import Listen, Settings
from pydantic import Field


class AuthMode(StrEnum):
    """How a caller says who they are."""

    DEV = "dev"


class GatewaySettings(Settings):
    """What the gateway can be told."""

    http_listen: Listen = Field(default="0.0.0.0:8080", description="Where HTTP is served, `host:port`.")
    post_target: str = Field(default="dns:///post:50051", description="The gRPC name of the service `post`.")
    graph_target: str = Field(default="dns:///graph:50051", description="The gRPC name of the service `graph`.")
    timeline_target: str = Field(
        default="dns:///timeline:50051", description="The gRPC name of the service `timeline`."
    )
    hydrate_target: str = Field(default="dns:///hydrate:50051", description="The gRPC name of the service `hydrate`.")
    auth_mode: AuthMode = Field(
        description="How callers say who they are. `dev` believes the header `X-User-Id`, and is refused unless "
        "`FEED_ENV` is `development`. There is no default, so that nobody trusts everybody by oversight."
    )
    http_max_body_bytes: int = Field(
        default=1024 * 1024, gt=0, description="The largest request body in bytes; a larger one is answered 413."
    )
    http_max_head_bytes: int = Field(
        default=64 * 1024,
        gt=0,
        description="The longest head of a request in bytes, request line and all headers; a longer one is answered 431, "
        "or 414 where it is mostly URL, and the connection is closed.",
    )
    http_head_seconds: float = Field(
        default=15.0,
        gt=0,
        description="The longest that the head of a request may take from its first byte, and the first byte from when the "
        "connection is made. Then half a head is answered 408, and the connection is closed.",
    )
    request_seconds: float = Field(
        default=5.0,
        gt=0,
        description="The longest that a request may take once it has been received; then the answer is 503. Every call "
        "to a service inherits what is left of it.",
    )
