"""The settings of `graph`."""

from feedkit.postgres import PostgresSettings
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field, SecretStr, field_validator

SHORTEST_TOKEN = 16
"""Characters of an operators' token."""


class GraphSettings(GrpcServerSettings, PostgresSettings, RedisSettings):
    """What `graph` can be told."""

    following_limit: int = Field(
        default=5000,
        gt=0,
        # The contracts of the pull query and of the viewer's context hold no more.
        le=5000,
        description="How many users one user may follow. Follows that stand already stay when it is lowered.",
    )
    blocking_limit: int = Field(
        default=5000,
        gt=0,
        # The list of those whose posts are withheld has room for all whom its viewer blocks.
        le=5000,
        description="How many users one user may block. Blocks that stand already stay when it is lowered.",
    )
    muting_limit: int = Field(
        default=5000,
        gt=0,
        le=5000,
        description="How many users one user may mute. Mutes that stand already stay when it is lowered.",
    )
    favourites_limit: int = Field(
        default=50,
        gt=0,
        # Nobody has more favourites than followees.
        le=5000,
        description="How many favourites one user may have. Favourites that stand already stay when it is lowered.",
    )
    operator_token: SecretStr | None = Field(
        default=None,
        description="What an operator's calls carry as `authorization: Bearer <token>`, 16 characters or more. Without one "
        "nobody is an operator.",
    )
    graph_stream_page: int = Field(
        default=10_000,
        ge=1,
        # The contracts' pages hold no more.
        le=10_000,
        description="How many ids a page of a stream holds.",
    )

    @field_validator("operator_token")
    @classmethod
    def _hard_to_guess(cls, token: SecretStr | None) -> SecretStr | None:
        # A file that holds a secret often ends with a line break.
        bare = token.get_secret_value().strip() if token else ""
        if bare and len(bare) < SHORTEST_TOKEN:
            raise ValueError(f"must have at least {SHORTEST_TOKEN} characters")
        return SecretStr(bare) if bare else None
