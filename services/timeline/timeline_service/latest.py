"""The LATEST view: pages of the mix, with what is to be told beside them."""

from collections.abc import Callable, Sequence
from typing import Generic

from feedkit.cursor import Position

from timeline_service.entries import Entry
from timeline_service.explanations import Explanation
from timeline_service.homes import Home
from timeline_service.hydration import PostT
from timeline_service.mix import Mix
from timeline_service.origins import Origin, Origins
from timeline_service.pages import TimelinePage, View


class Latest(Generic[PostT]):
    """Makes pages of the LATEST view."""

    def __init__(self, mix: Mix[PostT]) -> None:
        self._mix = mix

    async def page(
        self,
        home: Home,
        position: int,
        size: int,
        *,
        explain: bool,
        token: Callable[[int], object] = Position.of,
    ) -> TimelinePage[PostT]:
        """Up to `size` posts below a position, for which `home` was opened; raises as `mix.Mix.page` does.

        `token` makes the token of the next page from its position.
        """
        page = await self._mix.page(home.viewer, home.sources, position, size)
        return TimelinePage(
            page.posts,
            "" if page.next_position is None else str(token(page.next_position)),
            View.LATEST,
            explanations=_explained(page.entries, home.origins) if explain else (),
        )


def _explained(entries: Sequence[Entry], origins: Origins) -> list[Explanation]:
    came_from = origins.of([entry.post_id for entry in entries], [entry.author_id for entry in entries])
    return [Explanation(Origin(origin), place, place) for place, origin in enumerate(came_from.tolist())]
