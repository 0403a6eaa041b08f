"""Viewers' contexts, whom they follow above all: cached, and read from the truth by whoever misses them.

What a viewer changes has to show on the next read, so nothing here is kept in memory, and no reading of the truth is joined
to one that has begun: that one may be older than the change.
"""

from contextlib import suppress
from typing import Protocol

from timeline_service.source import NOT_NOW
from timeline_service.viewer import Context, Viewer


class Graph(Protocol):
    """The truth about viewers."""

    async def context(self, viewer_id: int) -> Context:
        """A viewer's context; raises NotFound, USER_NOT_FOUND, for nobody's id."""
        ...


class ContextStore(Protocol):
    """Where contexts are cached. Every method raises one of source.NOT_NOW where the store does not answer."""

    async def lease_context(self, viewer_id: int) -> bytes | None:
        """A lease to fill in a context that is not there; None where somebody else does."""
        ...

    async def fill_context(self, viewer_id: int, lease: bytes, context: Context) -> None:
        """Fill a context in, if the lease still stands."""
        ...


class Contexts:
    """Contexts that the cache does not have."""

    def __init__(self, graph: Graph, store: ContextStore) -> None:
        self._graph = graph
        self._store = store

    async def read(self, viewer_id: int) -> Viewer:
        """The viewer from the truth alone. Raises NotFound, USER_NOT_FOUND."""
        return Viewer.of(viewer_id, await self._graph.context(viewer_id))

    async def read_and_fill(self, viewer_id: int) -> Viewer:
        """The same, filled in for the next read unless somebody else does."""
        try:
            # Before the truth is read: whoever changes it takes the lease away, so nothing outdated is filled in.
            lease = await self._store.lease_context(viewer_id)
        except NOT_NOW:
            lease = None
        context = await self._graph.context(viewer_id)
        if lease is not None:
            # What was read is right even where it cannot be filled in; then the next read does that.
            with suppress(*NOT_NOW):
                await self._store.fill_context(viewer_id, lease, context)
        return Viewer.of(viewer_id, context)
