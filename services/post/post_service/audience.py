"""Who may answer a post: everybody but those between whom and its author there is a block."""

from collections.abc import Awaitable, Callable

from feedkit.errors import post_not_found, user_not_found


class Audience:
    """Sees that a post is there for somebody."""

    def __init__(
        self,
        author_of: Callable[[int], Awaitable[int | None]],
        apart: Callable[[int, int], Awaitable[bool | None]],
    ) -> None:
        """`author_of` tells whose a post is; None where no such post stands.

        `apart` asks whoever knows whether one of two users blocks the other; None where the first one is gone. It raises
        Unavailable where nobody can tell.
        """
        self._author_of = author_of
        self._apart = apart

    async def require(self, user_id: int, field: str, post_id: int) -> None:
        """See that a post is there for somebody, whom the request names by `field`.

        Raises NotFound: POST_NOT_FOUND, also where one blocks the other, so that nobody learns of a block by it;
        USER_NOT_FOUND. Raises Unavailable.
        """
        author_id = await self._author_of(post_id)
        if author_id is None:
            raise post_not_found(post_id)
        if author_id == user_id:
            return
        apart = await self._apart(user_id, author_id)
        if apart is None:
            raise user_not_found(user_id, field)
        if apart:
            raise post_not_found(post_id)
