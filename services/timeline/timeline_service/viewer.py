"""Whose home timeline is read."""

from typing import NamedTuple


class Viewer(NamedTuple):
    """A user who looks at their home timeline, and what decides on it."""

    id: int
    authors: frozenset[int]
    """Those whose posts belong into it: whom the viewer follows, and the viewer."""
