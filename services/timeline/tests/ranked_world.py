"""A small world whose home timeline is read in both views; see `world`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from feedrank.baseline import Baseline
from feedrank.candidates import Candidates
from feedrank.models import Model
from feedrank.signals import LIKES, OBSERVED
from timeline_service.candidates import Shortlist
from timeline_service.features import Known, Traits
from timeline_service.latest import Latest
from timeline_service.orders import KeptOrder
from timeline_service.origins import Origin
from timeline_service.pages import TimelinePage, View
from timeline_service.ranked import Found, Ranked
from timeline_service.ranker import Obstacle, Ranker
from timeline_service.ranking.insertions import Inserter
from timeline_service.ranking.rules import ALL_RULES, Rules
from timeline_service.viewer import Viewer
from timeline_service.views import Views

from .histories import VIEWER
from .world import Reader, World

WEIGHTS = (1.0, 3.0, 2.0, 0.3, -10.0)
NOW = 1_704_067_260.0
"""A minute after the first id."""


def nothing_known(entries: Shortlist, viewer: Viewer = VIEWER) -> Candidates:
    """Entries of which the store has nothing."""
    count = len(entries)
    no, none = np.zeros(count, np.bool_), np.zeros((count, len(OBSERVED)), np.float32)
    return Candidates(
        post_ids=entries.post_ids,
        author_ids=entries.author_ids,
        created_at_ms=np.full(count, int(NOW * 1000)),
        has_media=no.copy(),
        is_reply=no.copy(),
        topics=np.zeros((count, 4), np.uint32),
        sums=none.copy(),
        recent=none,
        recent_at=np.zeros(count),
        author_recent=none,
        author_recent_at=np.zeros(count),
        affinity=np.zeros(count, np.float32),
        is_own=entries.origins == Origin.OWN,
        is_favourite=np.isin(entries.author_ids, list(viewer.favourites)),
        is_pulled=entries.are_pulled,
        was_seen=no,
        was_hidden=no.copy(),
    )


class Signals:
    """Features of a world's posts: how often each was liked, and which the viewer has hidden. See `ranker.Features`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.likes: Mapping[int, int] = {}
        self.hidden: set[int] = set()

    async def of(self, viewer: Viewer, entries: Shortlist) -> Candidates:
        """See `ranker.Features`."""
        self._world.called("features", "read")
        candidates = nothing_known(entries, viewer)
        candidates.sums[:, LIKES] = [self.likes.get(post_id, 0) for post_id in entries.post_ids.tolist()]
        return replace(candidates, was_hidden=np.isin(entries.post_ids, list(self.hidden)))


class Orders:
    """See `ranked.OrderStore`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.kept: dict[bytes, bytes] = {}

    async def keep(self, viewer_id: int, snapshot: bytes, order: KeptOrder) -> None:
        """See `ranked.OrderStore`."""
        self._world.called("orders", "keep")
        self.kept[snapshot] = order.pack()

    async def find(self, viewer_id: int, snapshot: bytes) -> Found:
        """See `ranked.OrderStore`."""
        self._world.called("orders", "find")
        packed = self.kept.get(snapshot)
        return Found(self._world.context, None if packed is None else KeptOrder.unpack(packed))


class Tallied:
    """What was counted. See `views.Tally` and `ranked.Tally`."""

    def __init__(self) -> None:
        self.reads: list[tuple[View, bool]] = []
        self.fallbacks: list[Obstacle] = []
        self.expired = 0

    def was_read(self, view: View, *, asked_for: bool) -> None:
        """See `views.Tally`."""
        self.reads.append((view, asked_for))

    def fell_back(self, obstacle: Obstacle) -> None:
        """See `ranked.Tally`."""
        self.fallbacks.append(obstacle)

    def order_expired(self) -> None:
        """See `ranked.Tally`."""
        self.expired += 1


class Recipe(NamedTuple):
    """How a test has posts ranked."""

    candidates: int = 400
    weights: Sequence[float] = WEIGHTS
    rules: Rules = ALL_RULES
    model: Model = Baseline()
    inserter: Inserter | None = None
    rounds: int = 8


USUAL = Recipe()


class RankedReader:
    """Reads a world in both views, as the service does."""

    def __init__(self, world: World, recipe: Recipe = USUAL) -> None:
        self.world = world
        self.signals = Signals(world)
        self.orders = Orders(world)
        self.tally = Tallied()
        self.now = NOW
        reader = Reader(world)
        self.hydration = reader.hydration
        latest = Latest(reader.mix)
        ranked = Ranked(
            reader.homes,
            reader.contexts,
            latest,
            reader.hydration,
            ranker=Ranker(self.signals, recipe.model, recipe.weights, recipe.rules, lambda: self.now),
            orders=self.orders,
            inserter=recipe.inserter,
            tally=self.tally,
            candidates=recipe.candidates,
            hydration_rounds=recipe.rounds,
        )
        self._views = Views(reader.homes, latest, ranked, self.tally)

    async def page(
        self, token: str = "", size: int = 20, *, view: View | None = View.RANKED, explain: bool = False
    ) -> TimelinePage[int]:
        """A page of the viewer."""
        return await self._views.page(VIEWER.id, view, token, size, explain=explain)


class Cupboard:
    """A store of features in which there are only traits. See `features.FeatureStore`."""

    def __init__(self) -> None:
        self.traits: dict[int, Traits] = {}

    async def read(self, viewer: Viewer, entries: Shortlist) -> Known:
        """See `features.FeatureStore`."""
        lacking = [row for row, post_id in enumerate(entries.post_ids.tolist()) if post_id not in self.traits]
        return Known(nothing_known(entries, viewer), np.array(lacking, np.intp))

    async def keep_traits(self, traits: Mapping[int, Traits]) -> None:
        """See `features.FeatureStore`."""
        self.traits |= traits


def shortlist_of(posts: Mapping[int, int]) -> Shortlist:
    """Posts, post → author, as candidates, newest first; all were pushed but those of the viewer."""
    post_ids = sorted(posts, reverse=True)
    author_ids = np.array([posts[post_id] for post_id in post_ids], np.int64)
    origins = np.where(author_ids == VIEWER.id, Origin.OWN, Origin.PUSHED).astype(np.uint8)
    return Shortlist(np.array(post_ids, np.int64), author_ids, origins, np.zeros(len(posts), np.bool_), tail=None)
