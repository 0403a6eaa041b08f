"""The order of a test run: what needs no server comes first, so that the quick failures do."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the order, but for this."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is not None)
