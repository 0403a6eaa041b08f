import click
import pytest
from devmesh.__main__ import settings, up


def parsed(*values: str) -> dict[str, str]:
    return settings(click.Context(up), up.params[0], values)


def test_names_and_values_are_separated_at_the_first_equals_sign() -> None:
    assert parsed("FEED_REDIS_URL=redis://h/0?a=b", "FEED_LOG_LEVEL=debug") == {
        "FEED_REDIS_URL": "redis://h/0?a=b",
        "FEED_LOG_LEVEL": "debug",
    }


def test_an_empty_value_is_a_value() -> None:
    assert parsed("FEED_LOG_LEVEL=") == {"FEED_LOG_LEVEL": ""}


def test_the_later_of_two_wins() -> None:
    assert parsed("FEED_TIMELINE_LENGTH=1", "FEED_TIMELINE_LENGTH=2") == {"FEED_TIMELINE_LENGTH": "2"}


@pytest.mark.parametrize("value", ["FEED_LOG_LEVEL", "=5", "feed_log_level=debug", "FEED LOG=1", ""])
def test_anything_else_is_refused_by_name(value: str) -> None:
    with pytest.raises(click.BadParameter, match="is not NAME=VALUE"):
        parsed(value)
