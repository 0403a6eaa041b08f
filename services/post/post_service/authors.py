"""Whether an author exists, asked once for each."""

from collections.abc import Awaitable, Callable

from feedkit.errors import user_not_found


class Authors:
    """Remembers who exists, and nothing else: users are never un-created, but one who is unknown may come to be."""

    def __init__(self, exists: Callable[[int], Awaitable[bool]], remember: int) -> None:
        """`exists` asks whoever knows; `remember` is how many are remembered, those longest unused being forgotten."""
        self._exists = exists
        self._remember = remember
        self._known: dict[int, None] = {}

    async def require(self, author_id: int) -> None:
        """Raise NotFound (USER_NOT_FOUND) where there is no such user; Unavailable where nobody can tell."""
        if author_id in self._known:
            del self._known[author_id]
        elif not await self._exists(author_id):
            raise user_not_found(author_id, "author_id")
        self._known[author_id] = None
        if len(self._known) > self._remember:
            del self._known[next(iter(self._known))]
