"""Settings: read once at start from `FEED_*` variables, checked, and never changed.

A service's settings are a class that inherits what it needs from here and from its capabilities, so every variable has
one name, one type and one description; `docs/configuration.md` is generated from them.
"""

from enum import StrEnum
from typing import Annotated, TypeVar
from urllib.parse import unquote

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "FEED_"
THROW_AWAY = "throw-away"
"""What every secret contains that everybody may know, because it is in the source tree, to try things out."""


def _has_a_port_that_exists(address: str) -> str:
    # Systems take a larger number modulo 65536, so that the process would listen where nobody looks.
    if int(address.rpartition(":")[2]) > 65535:
        raise ValueError("the port is greater than 65535")
    return address


Listen = Annotated[
    str,
    StringConstraints(pattern=r"^(\[[0-9a-fA-F:]+\]|[^:\s]+):[0-9]{1,5}$"),
    AfterValidator(_has_a_port_that_exists),
]
"""`host:port`; an IPv6 host stands in brackets."""


class ConfigurationError(Exception):
    """Settings that cannot be used; the message names each variable and what is wrong with it."""


class Environment(StrEnum):
    """Where the process runs."""

    DEVELOPMENT = "development"
    PRODUCTION = "production"


class Settings(BaseSettings):
    """What every process can be told."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", allow_inf_nan=False)

    env: Environment = Field(
        default=Environment.PRODUCTION,
        description="`development` or `production`. Whatever is only fit for development refuses to start in production.",
    )
    log_level: str = Field(
        default="INFO",
        pattern="^(DEBUG|INFO|WARNING|ERROR)$",
        description="The least severe level that is logged.",
    )
    drain_seconds: float = Field(
        default=2.0,
        ge=0,
        description="How long, after a stop is asked for, a server goes on accepting calls while it says that it is not "
        "ready, so that callers turn away first.",
    )
    grace_seconds: float = Field(
        default=10.0, gt=0, description="How long, after draining, calls under way may take to end."
    )


AnySettings = TypeVar("AnySettings", bound=Settings)


def load(settings: type[AnySettings]) -> AnySettings:
    """Read settings from the environment.

    Raises ConfigurationError naming every variable that is wrong, or whose value is a throw-away secret in production.
    """
    try:
        told = settings()
    except ValidationError as error:
        problems = [
            f"{_variable('_'.join(str(part) for part in problem['loc']))}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise ConfigurationError("; ".join(problems)) from None
    if told.env is Environment.PRODUCTION and (names := _throw_away(told)):
        raise ConfigurationError(
            "; ".join(f"{_variable(name)}: is a {THROW_AWAY} secret, in production" for name in names)
        )
    return told


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _throw_away(settings: Settings) -> list[str]:
    """The settings that contain a throw-away secret, be it a password within an address."""

    def text(value: object) -> str:
        return value.get_secret_value() if isinstance(value, SecretStr) else str(value)

    # Addresses may spell any letter by its code.
    return [name for name, value in settings if THROW_AWAY in unquote(text(value)).lower()]
