"""The order of a test run: what needs no server comes first, so that the quick failures do. Properties may take their time:
a busy machine is no fault of theirs."""

import hypothesis
import pytest

hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the order, but for this."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is not None)
