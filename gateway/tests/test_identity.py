"""Who is asking, in development mode."""

import logging

import pytest
from feedkit.config import ConfigurationError, load
from feedkit.cursor import MAX_ID
from feedkit.errors import Unauthenticated
from feedkit.server import StartError
from gateway.config import GatewaySettings
from starlette.requests import Request

from gateway import identity


def request(*values: bytes) -> Request:
    return Request({"type": "http", "headers": [(b"x-user-id", value) for value in values]})


def test_the_header_names_the_acting_user() -> None:
    assert identity.acting_user(request(b"42")) == 42


def test_no_header_is_nobody_where_nobody_may_read() -> None:
    assert identity.viewer(request()) == 0


def test_no_header_is_refused_where_somebody_must_act() -> None:
    with pytest.raises(Unauthenticated) as error:
        identity.acting_user(request())
    assert [violation.field for violation in error.value.violations] == ["X-User-Id"]


@pytest.mark.parametrize("value", [b"", b"0", b"-1", b"01", b"abc", b"1.0", b"1,2", b"\xff", b"%d" % (MAX_ID + 1)])
def test_a_malformed_identity_is_refused_even_where_none_is_needed(value: bytes) -> None:
    with pytest.raises(Unauthenticated):
        identity.viewer(request(value))


def test_two_identities_are_none() -> None:
    with pytest.raises(Unauthenticated):
        identity.viewer(request(b"1", b"1"))


def settings(monkeypatch: pytest.MonkeyPatch, **variables: str) -> GatewaySettings:
    for name in ("FEED_ENV", "FEED_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return load(GatewaySettings)


@pytest.mark.parametrize("environment", [{}, {"FEED_ENV": "production"}])
def test_development_mode_does_not_start_in_production(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    with pytest.raises(StartError, match="FEED_AUTH_MODE=dev"):
        identity.check_mode(settings(monkeypatch, FEED_AUTH_MODE="dev", **environment))


def test_development_mode_warns(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    identity.check_mode(settings(monkeypatch, FEED_AUTH_MODE="dev", FEED_ENV="development"))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "NO AUTHENTICATION" in caplog.text


@pytest.mark.parametrize("mode", [{}, {"FEED_AUTH_MODE": "none"}, {"FEED_AUTH_MODE": ""}])
def test_no_mode_and_an_unknown_mode_are_refused_by_name(monkeypatch: pytest.MonkeyPatch, mode: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="FEED_AUTH_MODE"):
        settings(monkeypatch, FEED_ENV="development", **mode)
