"""All that a timeline must know of its viewer. Every read of a timeline asks for it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from feedkit.errors import user_not_found

from graph_service.home_views import HomeView


class ViewerContext(NamedTuple):
    """Whom the viewer wants to read, and how."""

    followee_ids: Sequence[int]
    """Whom the viewer follows and does not mute, ascending."""
    favourite_ids: Sequence[int] = ()
    """Those of them who are favourites, ascending."""
    home_view: HomeView = HomeView.LATEST
    """The view that the viewer has chosen."""


class ViewerContextStore(Protocol):
    """Where the context is read."""

    async def viewer_context(self, viewer_id: int) -> ViewerContext | None:
        """The context of a viewer, as it is at one moment; None for an unknown viewer."""
        ...


class ViewerContexts:
    """Tells what a timeline must know of its viewer."""

    def __init__(self, store: ViewerContextStore) -> None:
        self._store = store

    async def get(self, viewer_id: int) -> ViewerContext:
        """The context of a viewer, in one round trip to the store. Raises NotFound."""
        context = await self._store.viewer_context(viewer_id)
        if context is None:
            raise user_not_found(viewer_id, "viewer_id")
        return context
