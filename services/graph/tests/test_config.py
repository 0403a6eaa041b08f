"""The settings of `graph`."""

import pytest
from feedkit.config import ConfigurationError, load
from graph_service.config import GraphSettings


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_REDIS_URL", "redis://127.0.0.1:6379/0")
    monkeypatch.setenv("FEED_POSTGRES_DSN", "postgresql://postgres@127.0.0.1/graph")


def test_five_thousand_may_be_followed_unless_it_is_set():
    assert load(GraphSettings).following_limit == 5000


@pytest.mark.parametrize("value", ["0", "-1", "5001", "many"])
def test_a_limit_that_the_contracts_cannot_hold_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("FEED_FOLLOWING_LIMIT", value)
    with pytest.raises(ConfigurationError, match="FEED_FOLLOWING_LIMIT"):
        load(GraphSettings)
