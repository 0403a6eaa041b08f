"""The newest posts of some authors: from a list of each, and below those lists pulled.

It serves the viewer's own recents, and the recents of those followees whose posts are not pushed.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from timeline_service.author_posts import AuthorPosts, newest
from timeline_service.pull_source import Pull
from timeline_service.source import BEGINNING, TOP, Stretch

Load = Callable[[Sequence[int]], Awaitable[Mapping[int, AuthorPosts]]]
"""Gives the lists of authors, as far as they can be had now."""

_NOTHING_KNOWN = AuthorPosts((), TOP)


class AuthorsSource:
    """Everything above `floor` that some authors wrote. See `source.Source`."""

    def __init__(
        self,
        lists: Mapping[int, AuthorPosts],
        unknown: Sequence[int],
        load: Load,
        pull: Pull,
        *,
        floor: int = BEGINNING,
    ) -> None:
        """`lists` are those that are known, by author; those of `unknown` authors are loaded when they are needed.

        At and below `floor` another source has the posts of these authors too, so none is looked for there.
        """
        self._lists = dict(lists)
        self._unknown = unknown
        self._load = load
        self._pull = pull
        self._floor = floor
        self._wall = _wall(self._lists.values())

    def peek(self, position: int, limit: int) -> Stretch | None:
        """See `source.Source`."""
        if self._unknown or self._ends_above(position, self._wall):
            return None
        complete_to = self._line(self._wall)
        return _stretch(newest(self._lists.items(), position, limit, complete_to), limit, complete_to)

    async def read(self, position: int, limit: int) -> Stretch:
        """See `source.Source`."""
        if self._unknown:
            await self._load_unknown()
            if (stretch := self.peek(position, limit)) is not None:
                return stretch
        ended = [author_id for author_id, posts in self._lists.items() if self._ends_above(position, posts.horizon)]
        listed = {author_id: self._lists[author_id] for author_id in self._lists.keys() - ended}
        post_ids, author_ids, pulled_to = await self._pull.recent(ended, position, limit)
        complete_to = max(pulled_to, self._line(_wall(listed.values())))
        pulled = [entry for entry in zip(post_ids, author_ids, strict=True) if entry[0] >= complete_to]
        known = newest(listed.items(), position, limit, complete_to)
        return _stretch(sorted([*pulled, *known], reverse=True), limit, complete_to)

    def leave_out(self, author_id: int) -> None:
        """See `source.Source`."""
        self._lists.pop(author_id, None)
        self._unknown = [unknown for unknown in self._unknown if unknown != author_id]
        self._wall = _wall(self._lists.values())

    async def _load_unknown(self) -> None:
        loaded = await self._load(self._unknown)
        # An author whose list cannot be had is pulled.
        self._lists |= {author_id: loaded.get(author_id, _NOTHING_KNOWN) for author_id in self._unknown}
        self._unknown = ()
        self._wall = _wall(self._lists.values())

    def _ends_above(self, position: int, horizon: int) -> bool:
        """Whether what is complete above a horizon says nothing of what lies below the position."""
        return horizon > self._floor and position <= horizon + 1

    def _line(self, horizon: int) -> int:
        """Down to where that which is complete above a horizon is complete."""
        return horizon + 1 if horizon > self._floor else BEGINNING


def _wall(lists: Iterable[AuthorPosts]) -> int:
    """The highest horizon: above it all the lists are complete."""
    return max((posts.horizon for posts in lists), default=BEGINNING)


def _stretch(entries: Sequence[tuple[int, int]], limit: int, complete_to: int) -> Stretch:
    """A stretch of the first of these entries, post ids with their authors'."""
    if len(entries) > limit:
        entries = entries[:limit]
    if len(entries) == limit:
        # There may be more between the last one and the line.
        complete_to = max(complete_to, entries[-1][0])
    return Stretch([post_id for post_id, _ in entries], [author_id for _, author_id in entries], complete_to)
