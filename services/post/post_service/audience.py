"""Who may answer a post: whoever is shown it. Nobody is shown what a suspended or deleted author wrote, nor what somebody
wrote whom they block, or who blocks them."""

import asyncio
from collections.abc import Awaitable, Callable

from feedkit.errors import post_not_found, user_not_found

from post_service.authors import Standing


class Audience:
    """Sees that a post is there for somebody."""

    def __init__(
        self,
        author_of: Callable[[int], Awaitable[int | None]],
        standing: Callable[[int], Awaitable[Standing | None]],
        apart: Callable[[int, int], Awaitable[bool | None]],
    ) -> None:
        """`author_of` tells whose a post is; None where no such post stands.

        `standing` asks whoever knows how an account stands, None where there is none; `apart` whether one of two users
        blocks the other, None where the first one is gone. Both raise Unavailable where nobody can tell.
        """
        self._author_of = author_of
        self._standing = standing
        self._apart = apart

    async def require(self, user_id: int, field: str, post_id: int) -> None:
        """See that a post is there for somebody, whom the request names by `field`.

        Raises NotFound: POST_NOT_FOUND, also where its author is suspended or gone, and where one blocks the other, so that
        nobody learns of a block by it; USER_NOT_FOUND. Raises Unavailable.
        """
        author_id = await self._author_of(post_id)
        if author_id is None:
            raise post_not_found(post_id)
        if author_id == user_id:
            return
        standing, apart = await asyncio.gather(self._standing(author_id), self._apart(user_id, author_id))
        if apart is None:
            raise user_not_found(user_id, field)
        if apart or standing is not Standing.ACTIVE:
            raise post_not_found(post_id)
