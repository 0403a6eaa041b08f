"""All that a timeline must know of its viewer. Every read of a timeline asks for it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from feedkit.errors import user_not_found


class ViewerContext(NamedTuple):
    """Whom the viewer follows and does not mute, ascending."""

    followee_ids: Sequence[int]


class ViewerContextStore(Protocol):
    """Where the context is read."""

    async def unmuted_followees(self, viewer_id: int) -> Sequence[int] | None:
        """All whom a viewer follows and does not mute, ascending; None for an unknown viewer."""
        ...


class ViewerContexts:
    """Tells what a timeline must know of its viewer."""

    def __init__(self, store: ViewerContextStore) -> None:
        self._store = store

    async def get(self, viewer_id: int) -> ViewerContext:
        """The context of a viewer, in one round trip to the store. Raises NotFound."""
        followee_ids = await self._store.unmuted_followees(viewer_id)
        if followee_ids is None:
            raise user_not_found(viewer_id, "viewer_id")
        return ViewerContext(followee_ids)
