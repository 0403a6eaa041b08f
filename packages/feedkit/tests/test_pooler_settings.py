"""A pooler that gives sessions for a transaction needs an address past it, and is told of one."""

import pytest
from feedkit.config import ConfigurationError, load
from feedkit.postgres import Pooler, PostgresSettings

POOLED = "postgresql://post@pooler:6432/post"
DIRECT = "postgresql://post@postgres:5432/post"


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("FEED_POSTGRES_DSN", POOLED)
    monkeypatch.delenv("FEED_POSTGRES_DIRECT_DSN", raising=False)
    return monkeypatch


def test_unless_told_there_is_none() -> None:
    settings = load(PostgresSettings)
    assert settings.postgres_pooler is Pooler.NONE
    assert settings.postgres_session_dsn == POOLED


def test_a_pooler_of_transactions_without_a_way_past_it_is_refused(told: pytest.MonkeyPatch) -> None:
    told.setenv("FEED_POSTGRES_POOLER", "transaction")
    with pytest.raises(ConfigurationError, match=r"^FEED_POSTGRES_POOLER: .*set FEED_POSTGRES_DIRECT_DSN"):
        load(PostgresSettings)


def test_what_needs_a_session_goes_past_it(told: pytest.MonkeyPatch) -> None:
    told.setenv("FEED_POSTGRES_POOLER", "transaction")
    told.setenv("FEED_POSTGRES_DIRECT_DSN", DIRECT)
    assert load(PostgresSettings).postgres_session_dsn == DIRECT


def test_a_pooler_of_sessions_needs_no_way_past_it(told: pytest.MonkeyPatch) -> None:
    told.setenv("FEED_POSTGRES_POOLER", "session")
    assert load(PostgresSettings).postgres_session_dsn == POOLED


def test_an_address_that_is_wrong_is_the_one_thing_that_is_told(told: pytest.MonkeyPatch) -> None:
    told.setenv("FEED_POSTGRES_POOLER", "transaction")
    told.setenv("FEED_POSTGRES_DIRECT_DSN", "nonsense")
    with pytest.raises(ConfigurationError, match="FEED_POSTGRES_DIRECT_DSN: ") as refused:
        load(PostgresSettings)
    assert "POOLER" not in str(refused.value)
