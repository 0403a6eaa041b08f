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


def test_fifty_may_be_favourites_unless_it_is_set(monkeypatch: pytest.MonkeyPatch):
    assert load(GraphSettings).favourites_limit == 50
    monkeypatch.setenv("FEED_FAVOURITES_LIMIT", "7")
    assert load(GraphSettings).favourites_limit == 7


@pytest.mark.parametrize("value", ["0", "-1", "5001", "many"])
@pytest.mark.parametrize(
    "name", ["FEED_FOLLOWING_LIMIT", "FEED_BLOCKING_LIMIT", "FEED_MUTING_LIMIT", "FEED_FAVOURITES_LIMIT"]
)
def test_a_limit_that_the_contracts_cannot_hold_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        load(GraphSettings)


@pytest.mark.parametrize("value", ["0", "10001"])
def test_a_page_of_a_stream_that_the_contracts_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch, value: str):
    assert load(GraphSettings).graph_stream_page == 10_000
    monkeypatch.setenv("FEED_GRAPH_STREAM_PAGE", value)
    with pytest.raises(ConfigurationError, match="FEED_GRAPH_STREAM_PAGE"):
        load(GraphSettings)


def test_the_operators_token_is_in_no_text_of_the_settings(monkeypatch: pytest.MonkeyPatch):
    assert load(GraphSettings).operator_token is None
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", "for-operators-alone")
    assert "for-operators-alone" not in repr(load(GraphSettings))


@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_a_blank_operators_token_is_none(monkeypatch: pytest.MonkeyPatch, blank: str):
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", blank)
    assert load(GraphSettings).operator_token is None


def test_an_operators_token_is_taken_without_the_line_break_of_its_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", "for-operators-alone\n")
    token = load(GraphSettings).operator_token
    assert token is not None
    assert token.get_secret_value() == "for-operators-alone"


def test_an_operators_token_that_could_be_guessed_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", "fifteen-letters")
    with pytest.raises(ConfigurationError, match=r"FEED_OPERATOR_TOKEN.*16 characters"):
        load(GraphSettings)
