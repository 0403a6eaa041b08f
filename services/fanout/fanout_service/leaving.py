"""Lets authors who have become too small leave the index of pulled authors: from then on their posts are pushed.

Whatever was not pushed has to be in all timelines first. So the author's newest posts are pushed, as many as a timeline
holds, to all active followers, and then the author leaves, unless it was decided since the beginning that they are pulled:
by a post that was written meanwhile, or a follow. Then it begins again. Broken off anywhere it has done no harm.

Each timeline gets a new epoch with it, so that a rebuild or reconcile that read the truth earlier reads it again. Otherwise
it might, with what it knows of a viewer who did not follow the author yet, take out what was pushed, or promise too much.
"""

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing
from typing import NamedTuple, Protocol

from fanout_service.attempts import NOT_NOW
from fanout_service.pace import Pace
from fanout_service.timelines import Entry, Posts, Share, share_of

logger = logging.getLogger(__name__)

AUTHORS = 100
"""From how many authors the next one is chosen."""
TRIES = 3
"""How often each is tried in one round."""


class ShrunkAuthor(NamedTuple):
    """A pulled author who has become too small."""

    author_id: int
    sequence: int
    """How often it has been decided that the author is pulled."""


class Index(Protocol):
    """The index of the authors whose posts are not pushed. Every method raises one of NOT_NOW where it does not answer."""

    async def shrunk(self, follower_count: int, limit: int) -> Sequence[ShrunkAuthor]:
        """Authors in it who have fewer followers, the smallest first."""
        ...

    async def leave(self, author: ShrunkAuthor) -> bool:
        """Take an author out; False where it has been decided since that they are pulled, or they are not in it."""
        ...


class ActiveFollowers(Protocol):
    """The truth about who is pushed to."""

    def active_followers(self, author_id: int) -> AsyncGenerator[Sequence[int]]:
        """The followers who were active lately, page by page."""
        ...


class Histories(Protocol):
    """The materialised timelines, as they take what an author wrote before. Both raise Unavailable where they cannot."""

    def new_epoch(self) -> bytes:
        """An epoch that no timeline has had."""
        ...

    async def push_history(self, viewer_ids: Sequence[int], history: Share, epoch: bytes) -> None:
        """Add a history to those timelines that exist, and give them the epoch; one round trip."""
        ...

    async def push_since(
        self, viewer_ids: Sequence[int], before: bytes, entries: Sequence[Entry], epoch: bytes
    ) -> Collection[int]:
        """Add entries to those timelines that still have the epoch `before`, and give them the new one; one round trip.

        Returns the viewers of the others.
        """
        ...


class Sizes(NamedTuple):
    """How much is done at a time."""

    length: int
    """The most entries of a timeline."""
    batch: int
    """Timelines in one round trip; each gets as many entries as it holds."""


class _Attempt(NamedTuple):
    """What has been brought to timelines, which have this epoch unless they were rewritten since."""

    epoch: bytes
    entries: frozenset[Entry]


class Leaving:
    """Goes through the shrunk authors, one after another."""

    def __init__(
        self,
        index: Index,
        followers: ActiveFollowers,
        posts: Posts,
        histories: Histories,
        *,
        sizes: Sizes,
        pace: Pace,
        may_go_on: Callable[[], bool],
    ) -> None:
        """`pace` is of round trips that bring whole histories. `may_go_on` tells whether there is room for this now."""
        self._index = index
        self._followers = followers
        self._posts = posts
        self._histories = histories
        self._sizes = sizes
        self._pace = pace
        self._may_go_on = may_go_on
        self._attempts: dict[int, _Attempt] = {}
        """Those in vain, by author. With them the next one is shorter, so that even large authors come to an end."""

    async def let_leave(self, follower_count: int) -> None:
        """One round: let those leave who have fewer followers. Raises one of NOT_NOW where it is worth a try later."""
        tried: Counter[int] = Counter()
        while self._may_go_on():
            # Anew for each, so that what was decided before its turn does not count against it.
            shrunk = await self._index.shrunk(follower_count, AUTHORS)
            self._forget_others_than({author.author_id for author in shrunk})
            author = min(shrunk, key=lambda author: (tried[author.author_id], self._was_in_vain(author)), default=None)
            if author is None or tried[author.author_id] == TRIES:
                return
            tried[author.author_id] += 1
            try:
                await self._let_one_leave(author)
            except NOT_NOW:
                raise
            except Exception:
                logger.exception("an author cannot leave the index", extra={"author_id": author.author_id})

    def _was_in_vain(self, author: ShrunkAuthor) -> bool:
        """Such authors come last, so that one for whom it never ends holds up nobody."""
        return author.author_id in self._attempts

    def _forget_others_than(self, author_ids: Collection[int]) -> None:
        self._attempts = {author: attempt for author, attempt in self._attempts.items() if author in author_ids}

    async def _let_one_leave(self, author: ShrunkAuthor) -> None:
        # The sequence was read before the posts: whatever is decided from now on lets it fail.
        recent = await self._posts.recent([author.author_id], self._sizes.length + 1)
        history = share_of(recent, self._sizes.length)
        if history.entries and not await self._bring(author.author_id, history):
            return
        if await self._index.leave(author):
            self._attempts.pop(author.author_id, None)
            logger.info("an author left the index", extra={"author_id": author.author_id})

    async def _bring(self, author_id: int, history: Share) -> bool:
        """Push a history to all active followers; False where it was broken off."""
        before = self._attempts.get(author_id)
        this = self._attempts[author_id] = _Attempt(self._histories.new_epoch(), frozenset(history.entries))
        async with aclosing(self._followers.active_followers(author_id)) as pages:
            async for page in pages:
                for start in range(0, len(page), self._sizes.batch):
                    if not self._may_go_on():
                        return False
                    batch = page[start : start + self._sizes.batch]
                    if before is not None:
                        batch = await self._bring_what_is_new(batch, history, before, this)
                    if batch:
                        await self._pace.turn()
                        await self._histories.push_history(batch, history, this.epoch)
        return True

    async def _bring_what_is_new(
        self, viewer_ids: Sequence[int], history: Share, before: _Attempt, this: _Attempt
    ) -> Sequence[int]:
        """Push what came since an earlier attempt to whom it had reached; those whom it had not are returned."""
        new = [entry for entry in history.entries if entry not in before.entries]
        unknown = set(await self._histories.push_since(viewer_ids, before.epoch, new, this.epoch))
        return [viewer_id for viewer_id in viewer_ids if viewer_id in unknown]
