"""Wrong settings are all named at once, by the variables that people set."""

import os

import pytest
from feedkit.config import AnySettings, ConfigurationError, Environment, Settings, load
from feedkit.postgres import PostgresSettings
from feedkit.redis import RedisSettings
from feedkit.server import GrpcServerSettings
from pydantic import Field, SecretStr

DSN = "postgresql://postgres@127.0.0.1:5432/post"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:

    for name in [name for name in os.environ if name.startswith("FEED_")]:
        monkeypatch.delenv(name)


def test_without_variables_everything_has_its_default() -> None:
    settings = load(GrpcServerSettings)
    assert (settings.env, settings.grpc_listen, settings.grpc_unary_seconds) == (
        Environment.PRODUCTION,
        "0.0.0.0:50051",
        10.0,
    )


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_ENV", "development")
    monkeypatch.setenv("FEED_POSTGRES_DSN", DSN)
    settings = load(PostgresSettings)
    assert (settings.env, str(settings.postgres_dsn)) == (Environment.DEVELOPMENT, DSN)


WRONG = [
    (Settings, "FEED_ENV", "staging"),
    (Settings, "FEED_LOG_LEVEL", "LOUD"),
    (Settings, "FEED_DRAIN_SECONDS", "-1"),
    (Settings, "FEED_GRACE_SECONDS", "0"),
    (Settings, "FEED_GRACE_SECONDS", "ten"),
    (GrpcServerSettings, "FEED_GRPC_LISTEN", "50051"),
    (GrpcServerSettings, "FEED_GRPC_LISTEN", "host:"),
    (GrpcServerSettings, "FEED_GRPC_LISTEN", "::1:50051"),
    (GrpcServerSettings, "FEED_GRPC_LISTEN", "127.0.0.1:65536"),
    (GrpcServerSettings, "FEED_GRPC_UNARY_SECONDS", "nan"),
    (GrpcServerSettings, "FEED_GRPC_STREAM_SECONDS", "inf"),
    (GrpcServerSettings, "FEED_GRPC_MAX_CONCURRENT_CALLS", "1.5"),
    (GrpcServerSettings, "FEED_GRPC_MAX_CONNECTION_AGE_SECONDS", ""),
    (PostgresSettings, "FEED_POSTGRES_DSN", "mysql://127.0.0.1/post"),
    (PostgresSettings, "FEED_POSTGRES_DIRECT_DSN", "nonsense"),
    (PostgresSettings, "FEED_POSTGRES_POOL_SIZE", "0"),
    (RedisSettings, "FEED_REDIS_URL", "http://127.0.0.1"),
]


@pytest.mark.parametrize(("settings", "variable", "value"), WRONG, ids=lambda value: str(value)[-40:])
def test_a_wrong_variable_is_named(
    settings: type[AnySettings], variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_POSTGRES_DSN", DSN)
    monkeypatch.setenv("FEED_REDIS_URL", "redis://127.0.0.1:6379/0")
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=rf"^{variable}: ") as refused:
        load(settings)
    assert "\n" not in str(refused.value)


def test_all_wrong_variables_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_ENV", "staging")
    monkeypatch.setenv("FEED_LOG_LEVEL", "LOUD")
    with pytest.raises(ConfigurationError, match=r"FEED_ENV.*FEED_LOG_LEVEL.*FEED_POSTGRES_DSN"):
        load(PostgresSettings)


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^FEED_POSTGRES_DSN: Field required$"):
        load(PostgresSettings)


def test_no_secret_is_told_with_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_POSTGRES_DSN", "postgresql://user:hunter2@host:port/post")
    with pytest.raises(ConfigurationError) as refused:
        load(PostgresSettings)
    assert "hunter2" not in str(refused.value)


class Gate(Settings):
    """A process with a secret that is no part of an address."""

    operator_token: SecretStr = Field(description="A token.")
    names: str = Field(default="", description="Several names.")


@pytest.mark.parametrize(
    ("settings", "variable", "value"),
    [
        (PostgresSettings, "FEED_POSTGRES_DSN", "postgresql://post:throw-away-1f@postgres:5432/post"),
        (PostgresSettings, "FEED_POSTGRES_DIRECT_DSN", "postgresql://post:1f-THROW-AWAY@postgres:5432/post"),
        (PostgresSettings, "FEED_POSTGRES_DSN", "postgresql://post:%74hrow%2Daway@postgres:5432/post"),
        (RedisSettings, "FEED_REDIS_URL", "redis://:Throw-Away@redis:6379/0"),
        (Gate, "FEED_OPERATOR_TOKEN", "throw-away-token-of-operators"),
        (Gate, "FEED_NAMES", "one,throw-away,three"),
    ],
)
def test_production_refuses_a_throw_away_secret_and_names_its_variable_alone(
    settings: type[AnySettings], variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_POSTGRES_DSN", DSN)
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", "kept by nobody else")
    monkeypatch.setenv(variable, value)
    for environment in ({}, {"FEED_ENV": "production"}):
        with monkeypatch.context() as set_to, pytest.raises(ConfigurationError) as refused:
            for name, chosen in environment.items():
                set_to.setenv(name, chosen)
            load(settings)
        assert str(refused.value) == f"{variable}: is a throw-away secret, in production"
    monkeypatch.setenv("FEED_ENV", "development")
    load(settings)


def test_all_throw_away_secrets_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", "throw-away")
    monkeypatch.setenv("FEED_NAMES", "throw-away")
    with pytest.raises(ConfigurationError, match=r"^FEED_OPERATOR_TOKEN: [^;]*; FEED_NAMES: [^;]*$"):
        load(Gate)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:50051", "localhost:50051", "0.0.0.0:65535"])
def test_addresses_to_listen_on(listen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_GRPC_LISTEN", listen)
    assert load(GrpcServerSettings).grpc_listen == listen


@pytest.mark.parametrize("settings", [Settings, GrpcServerSettings, PostgresSettings, RedisSettings])
def test_every_setting_is_described(settings: type[Settings]) -> None:
    assert all(field.description for field in settings.model_fields.values())
