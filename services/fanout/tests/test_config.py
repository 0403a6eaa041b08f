"""Settings that would leave timelines without pushes are refused, by name."""

import pytest
from fanout_service.config import FanoutSettings
from feedkit.config import ConfigurationError, load

REQUIRED = {"FEED_REDIS_URL": "redis://127.0.0.1:1/0", "FEED_KAFKA_BROKERS": "127.0.0.1:1"}


def settings(monkeypatch: pytest.MonkeyPatch, **more: str) -> FanoutSettings:
    for name, value in {**REQUIRED, **more}.items():
        monkeypatch.setenv(name, value)
    return load(FanoutSettings)


def test_the_defaults_are_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch).timeline_length == 800


@pytest.mark.parametrize("more", [{"FEED_TIMELINE_DAYS": "29"}, {"FEED_ACTIVE_DAYS": "29"}])
def test_timelines_must_not_outlive_the_pushes_to_them(monkeypatch: pytest.MonkeyPatch, more: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"FEED_ACTIVE_DAYS: .* at least 2 more than FEED_TIMELINE_DAYS"):
        settings(monkeypatch, **more)


def test_both_may_be_changed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings(monkeypatch, FEED_TIMELINE_DAYS="7", FEED_ACTIVE_DAYS="9").active_days == 9


@pytest.mark.parametrize("length", ["0", "1000"])
def test_a_timeline_is_no_longer_than_one_answer_of_the_pull_query(
    monkeypatch: pytest.MonkeyPatch, length: str
) -> None:
    with pytest.raises(ConfigurationError, match="FEED_TIMELINE_LENGTH"):
        settings(monkeypatch, FEED_TIMELINE_LENGTH=length)
