"""Features of candidates: what the store has, and the traits that it lacks from the truth."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import numpy as np
from feedkit.errors import FeedError
from feedrank.candidates import Candidates
from numpy.typing import NDArray

from timeline_service.candidates import Shortlist
from timeline_service.viewer import Viewer

logger = logging.getLogger(__name__)

ASKED_AT_ONCE = 4
"""How many questions for traits a process has under way at most; whoever comes then does without."""
KEPT_AT_ONCE = 4
"""How many answers are being filled in at most; what is not filled in is asked for again."""
MOST_TOPICS = 4
"""How many topics of a post a model knows; see `feedrank.candidates`."""


class Traits(NamedTuple):
    """What does not change of a post as long as nobody edits it."""

    has_media: bool = False
    is_reply: bool = False
    topics: Sequence[int] = ()
    """The numbers of its first hashtags, at most 4."""


class Known(NamedTuple):
    """What the store has of candidates."""

    candidates: Candidates
    """Newest first. Columns of traits may be filled in."""
    lacking: NDArray[np.intp]
    """The rows without traits."""


class FeatureStore(Protocol):
    """Where features are kept. Both methods raise one of source.NOT_NOW where it does not answer."""

    async def read(self, viewer: Viewer, entries: Shortlist) -> Known:
        """What there is, in one round trip; what there is not is 0."""
        ...

    async def keep_traits(self, traits: Mapping[int, Traits]) -> None:
        """Fill in the traits of posts."""
        ...


class Features:
    """Features of candidates. An asynchronous context manager, which owns what is filled in behind reads."""

    def __init__(
        self,
        store: FeatureStore,
        traits: Callable[[Sequence[int]], Awaitable[Mapping[int, Traits]]],
        *,
        patience_seconds: float,
    ) -> None:
        """`traits` tells those of posts that stand, or raises a FeedError; a read waits for it so long at most."""
        self._store = store
        self._traits = traits
        self._patience = patience_seconds
        self._asked: set[int] = set()
        self._questions = 0
        self._keeping: set[asyncio.Task[None]] = set()

    async def of(self, viewer: Viewer, entries: Shortlist) -> Candidates:
        """The features of entries, newest first. Raises one of source.NOT_NOW where the store does not answer.

        Traits that nobody tells in time stay 0.
        """
        candidates, lacking = await self._store.read(viewer, entries)
        if len(lacking):
            traits = await self._ask(candidates.post_ids[lacking].tolist())
            for row, post_id in zip(lacking.tolist(), candidates.post_ids[lacking].tolist(), strict=True):
                if found := traits.get(post_id):
                    candidates.has_media[row], candidates.is_reply[row] = found.has_media, found.is_reply
                    topics = found.topics[:MOST_TOPICS]
                    candidates.topics[row, : len(topics)] = topics
        return candidates

    async def _ask(self, post_ids: Sequence[int]) -> Mapping[int, Traits]:
        """The traits of posts that nobody asks for already, filled in for the next read."""
        asked = [post_id for post_id in post_ids if post_id not in self._asked]
        if not asked or self._questions == ASKED_AT_ONCE:
            return {}
        self._questions += 1
        self._asked.update(asked)
        try:
            async with asyncio.timeout(self._patience):
                told = await self._traits(asked)
        except (FeedError, TimeoutError) as error:
            logger.warning("the traits of posts are not told: %s", str(error) or "no answer in time")
            return {}
        finally:
            self._questions -= 1
            self._asked.difference_update(asked)
        # A post that is gone has none for good, and is not to be asked for by every read.
        self._keep({post_id: told.get(post_id, Traits()) for post_id in asked})
        return told

    def _keep(self, traits: Mapping[int, Traits]) -> None:
        if len(self._keeping) < KEPT_AT_ONCE:
            task = asyncio.create_task(self._keep_behind(traits))
            self._keeping.add(task)
            task.add_done_callback(self._keeping.discard)

    async def _keep_behind(self, traits: Mapping[int, Traits]) -> None:
        try:
            await self._store.keep_traits(traits)
        except FeedError as error:
            logger.warning("the traits of posts are not filled in: %s", error.message)
        except Exception:
            logger.exception("the traits of posts are not filled in")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
