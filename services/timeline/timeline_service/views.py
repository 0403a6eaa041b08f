"""The two views of a home timeline: which one a read is shown, and which token belongs to which."""

from typing import Generic, Protocol

from feedkit.cursor import Position
from feedkit.errors import InvalidArgument

from timeline_service import orders
from timeline_service.homes import Homes
from timeline_service.hydration import PostT
from timeline_service.latest import Latest
from timeline_service.pages import TimelinePage, View
from timeline_service.ranked import Ranked
from timeline_service.source import TOP

_OTHER_VIEW = "is a cursor of the other view"


class Tally(Protocol):
    """Counts reads."""

    def was_read(self, view: View, *, asked_for: bool) -> None:
        """A page of a view was read, which the reader asked for, or had chosen before."""
        ...


class Views(Generic[PostT]):
    """Home timelines in the view that a reader asks for, or has chosen."""

    def __init__(self, homes: Homes, latest: Latest[PostT], ranked: Ranked[PostT], tally: Tally) -> None:
        self._homes = homes
        self._latest = latest
        self._ranked = ranked
        self._tally = tally

    async def page(
        self, viewer_id: int, view: View | None, token: str, size: int, *, explain: bool
    ) -> TimelinePage[PostT]:
        """A page of `size` posts from where a token says. Without a view it is that of the token, or the chosen one.

        Raises InvalidArgument, INVALID_PAGE_TOKEN, for a token that no page of this view had; NotFound, USER_NOT_FOUND, for
        nobody's id; one of source.NOT_NOW where no page, however short, can be had.
        """
        if token:
            page = await self._next_page(viewer_id, view, token, size, explain=explain)
        else:
            page = await self._first_page(viewer_id, view, size, explain=explain)
        self._tally.was_read(page.view, asked_for=view is not None)
        return page

    async def _first_page(self, viewer_id: int, view: View | None, size: int, *, explain: bool) -> TimelinePage[PostT]:
        if view is View.RANKED:
            return await self._ranked.first_page(await self._ranked.open(viewer_id), size, explain=explain)
        # What was chosen is read with the rest. Who has chosen RANKED is read on from there, with one round trip more.
        home = await self._homes.open(viewer_id, TOP, size)
        if view is None and home.viewer.prefers_ranked:
            return await self._ranked.first_page(home, size, explain=explain)
        return await self._latest.page(home, TOP, size, explain=explain)

    async def _next_page(
        self, viewer_id: int, view: View | None, token: str, size: int, *, explain: bool
    ) -> TimelinePage[PostT]:
        is_of = View.RANKED if token.startswith(orders.PREFIX) else View.LATEST
        if view not in {None, is_of}:
            raise InvalidArgument.of_field("page_token", _OTHER_VIEW, reason="INVALID_PAGE_TOKEN")
        if is_of is View.RANKED:
            return await self._ranked.page(viewer_id, orders.parse(token), size, explain=explain)
        place = Position.parse(token)
        position = TOP if place is None else place.id_bound
        home = await self._homes.open(viewer_id, position, size)
        return await self._latest.page(home, position, size, explain=explain)
