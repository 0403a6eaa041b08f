"""The ranked view: an order of the newest posts, which is kept and walked through, and LATEST below it.

The order is made once, on the first page. Later pages go through what was kept of it, so that they neither repeat nor
skip while posts arrive and go: what has been withheld since, or is of somebody whom the viewer no longer follows, is passed
over, and a page stops before the first post of which is not known whether it may be shown, as in LATEST (`mix`).

Ranking is never what a read fails for. Where it is not possible the page is LATEST, and says so.
"""

import asyncio
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol

from timeline_service.candidates import Shortlist, shortlist
from timeline_service.contexts import Contexts
from timeline_service.drafts import Draft
from timeline_service.explanations import Explanation, Reason
from timeline_service.homes import Home, Homes
from timeline_service.hydration import Hydrator, PostT
from timeline_service.latest import Latest
from timeline_service.orders import Below, InOrder, KeptOrder, new_snapshot
from timeline_service.origins import Origin
from timeline_service.pages import Notice, TimelinePage, View
from timeline_service.ranker import Obstacle, Ranker, Ranking, Unrankable
from timeline_service.ranking.insertions import Inserter, Insertion
from timeline_service.source import NOT_NOW, TOP
from timeline_service.viewer import Context, Viewer


class Found(NamedTuple):
    """What a later page needs; None stands for what is not there."""

    context: Context | None
    order: KeptOrder | None


class OrderStore(Protocol):
    """Where orders are kept. Both methods raise one of source.NOT_NOW where it does not answer."""

    async def keep(self, viewer_id: int, snapshot: bytes, order: KeptOrder) -> None:
        """Keep an order for some minutes, by an id that no other has."""
        ...

    async def find(self, viewer_id: int, snapshot: bytes) -> Found:
        """A viewer's context and the order of an id, in one round trip."""
        ...


class Tally(Protocol):
    """Counts what happens to ranked reads."""

    def fell_back(self, obstacle: Obstacle) -> None:
        """A page is LATEST although RANKED was wanted."""
        ...

    def order_expired(self) -> None:
        """An order was asked for that is kept no longer."""
        ...


class Ranked(Generic[PostT]):
    """Makes pages of the ranked view."""

    def __init__(
        self,
        homes: Homes,
        contexts: Contexts,
        latest: Latest[PostT],
        hydrator: Hydrator[PostT],
        *,
        ranker: Ranker,
        orders: OrderStore,
        inserter: Inserter | None,
        tally: Tally,
        candidates: int,
        hydration_rounds: int,
    ) -> None:
        """`candidates` is how many of the newest posts are ranked, `hydration_rounds` bound the hydration of one page."""
        self._homes = homes
        self._contexts = contexts
        self._latest = latest
        self._hydrator = hydrator
        self._ranker = ranker
        self._orders = orders
        self._inserter = inserter
        self._tally = tally
        self._candidates = candidates
        self._rounds = hydration_rounds

    async def open(self, viewer_id: int) -> Home:
        """Open a home timeline for the first page of a ranked walk. Raises as `homes.Homes.open` does."""
        return await self._homes.open(viewer_id, TOP, self._candidates)

    async def first_page(
        self, home: Home, size: int, *, explain: bool, notice: Notice | None = None
    ) -> TimelinePage[PostT]:
        """The first `size` posts of a new order, which is kept. `home` was opened at the top.

        Raises what failed, one of source.NOT_NOW, where a page of LATEST would fail too.
        """
        if not home.cache_answered:
            # Neither features nor orders are to be had, so that nobody has to be asked for candidates.
            return await self._without_ranking(Obstacle.FEATURES, home, size, explain=explain)
        drawn = await shortlist(home, self._candidates)
        if not len(drawn):
            return TimelinePage([], "", View.RANKED, notice)
        try:
            ranking = await self._ranker.rank(home.viewer, drawn)
            walk = _Walk(home.viewer, KeptOrder.of(drawn, ranking.order), new_snapshot(), ranking)
            # Kept while the first posts are hydrated, so that the reader waits for one of the two only.
            keeping = asyncio.gather(self._keep(walk), return_exceptions=True)
            page = await self._page(walk, 0, size, explain=explain, notice=notice)
            [failure] = await keeping
            if failure is not None:
                raise failure
        except Unrankable as error:
            # Opened anew, because sources are read down once.
            home = await self._homes.open(home.viewer.id, TOP, size)
            return await self._without_ranking(error.obstacle, home, size, explain=explain)
        return page

    async def page(self, viewer_id: int, token: InOrder | Below, size: int, *, explain: bool) -> TimelinePage[PostT]:
        """The next `size` posts of a walk; the first ones of a new order where that of the token is gone.

        Raises NotFound, USER_NOT_FOUND, for nobody's id, and otherwise as `first_page` does.
        """
        if isinstance(token, Below):
            return await self._below(viewer_id, token.position, size, explain=explain)
        try:
            context, order = await self._orders.find(viewer_id, token.snapshot)
        except NOT_NOW:
            home = await self._homes.open(viewer_id, TOP, size)
            return await self._without_ranking(Obstacle.ORDERS, home, size, explain=explain)
        if order is None:
            self._tally.order_expired()
            home = await self.open(viewer_id)
            return await self.first_page(home, size, explain=explain, notice=Notice.ORDER_EXPIRED)
        if context is None:
            viewer = await self._contexts.read_and_fill(viewer_id)
        else:
            viewer = Viewer.of(viewer_id, context)
        return await self._page(_Walk(viewer, order, token.snapshot), token.offset, size, explain=explain)

    async def _keep(self, walk: "_Walk") -> None:
        try:
            await self._orders.keep(walk.viewer.id, walk.snapshot, walk.order)
        except NOT_NOW as error:
            raise Unrankable(Obstacle.ORDERS) from error

    # --- pages of an order -----------------------------------------------------------------------------------------------

    async def _page(
        self, walk: "_Walk", offset: int, size: int, *, explain: bool, notice: Notice | None = None
    ) -> TimelinePage[PostT]:
        draft = Draft(self._hydrator, walk.viewer.id, size)
        places, reached = await self._fill(walk, offset, draft)
        if draft.failure and not draft.posts:
            raise draft.failure
        goes_on = walk.order.places(reached, 1, walk.viewer.authors, draft.left_out)
        tail = walk.order.tail
        if not goes_on and not draft.posts and tail is not None:
            page = await self._below(walk.viewer.id, tail, size, explain=explain)
            return page if notice is None else page.noticing(notice)
        return TimelinePage(
            draft.posts,
            str(InOrder(walk.snapshot, reached)) if goes_on else "" if tail is None else str(Below(tail)),
            View.RANKED,
            notice,
            await self._explained(walk, places) if explain else (),
            self._inserted(walk.viewer.id, offset, places, reached),
        )

    async def _fill(self, walk: "_Walk", offset: int, draft: Draft[PostT]) -> tuple[list[int], int]:
        """Fill a page from a place on: the places of its posts, and the place down to which everything is settled."""
        shown: list[int] = []
        reached = offset
        for _ in range(self._rounds):
            places = walk.order.places(reached, draft.wanted, walk.viewer.authors, draft.left_out)
            entries = walk.order.entries_at(places)
            before = len(draft.entries)
            settled = await draft.hydrate(entries)
            place_of = dict(zip(entries, places, strict=True))
            shown += [place_of[entry] for entry in draft.entries[before:]]
            if settled:
                reached = places[settled - 1] + 1
            if not places or not draft.lacking or draft.failure:
                break
        return shown, reached

    async def _explained(self, walk: "_Walk", places: Sequence[int]) -> list[Explanation]:
        if not places:
            return []
        order, entries = walk.order, walk.order.candidates_at(places)
        try:
            reasons = await self._reasons(walk, places, entries)
        except Unrankable:
            # The place is what it is, whatever can be said of it just now.
            reasons = [Reason()] * len(places)
        return [
            Explanation(Origin(origin), place, order.scored_place(place), order.moves(place), reason)
            for origin, place, reason in zip(entries.origins.tolist(), places, reasons, strict=True)
        ]

    async def _reasons(self, walk: "_Walk", places: Sequence[int], entries: Shortlist) -> list[Reason]:
        if walk.ranking is None:
            return await self._ranker.reasons_for(walk.viewer, entries)
        return self._ranker.reasons(walk.ranking, walk.ranking.order.rows[list(places)].tolist())

    def _inserted(self, viewer_id: int, offset: int, places: Sequence[int], reached: int) -> Sequence[Insertion]:
        return () if self._inserter is None else self._inserter.insertions(viewer_id, offset, places, reached)

    # --- LATEST in its stead, and below it -------------------------------------------------------------------------------

    async def _without_ranking(
        self, obstacle: Obstacle, home: Home, size: int, *, explain: bool
    ) -> TimelinePage[PostT]:
        """The first page of LATEST, whose walk goes on as that of a ranked one does below its order."""
        self._tally.fell_back(obstacle)
        page = await self._latest.page(home, TOP, size, explain=explain, token=Below)
        return page.noticing(Notice.RANKING_UNAVAILABLE)

    async def _below(self, viewer_id: int, position: int, size: int, *, explain: bool) -> TimelinePage[PostT]:
        home = await self._homes.open(viewer_id, position, size)
        return await self._latest.page(home, position, size, explain=explain, token=Below)


class _Walk(NamedTuple):
    """An order that is walked through."""

    viewer: Viewer
    order: KeptOrder
    snapshot: bytes
    ranking: Ranking | None = None
    """What it was made from, where that was just now."""
