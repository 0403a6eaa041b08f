"""A test's own record of what was acknowledged, and of what feeds have to show for it.

It is never read back from the product, so that nothing which the product loses can be missing here too.
"""

from collections.abc import Sequence

from checked_walks import walk_faults
from devmesh.mesh import Mesh
from feed_api import FeedApi
from operators import delete, restore, suspend
from stored_keys import StoredKeys
from timelines import users
from walks import each


class Ledger:
    """Acts through the public API and notes each act once it is acknowledged."""

    def __init__(self, api: FeedApi) -> None:
        self._api = api
        self._authors: dict[int, int] = {}
        self._deleted: set[int] = set()
        self._follows: set[tuple[int, int]] = set()
        self._mutes: set[tuple[int, int]] = set()
        self._suspended: set[int] = set()

    # --- what people do ----------------------------------------------------------------------------------------------

    async def users(self, name: str, count: int) -> list[int]:
        """So many new users."""
        return await users(self._api, name, count)

    async def follow(self, viewer: int, *authors: int) -> None:
        """Follow one after the other."""
        for author in authors:
            await self._api.follow(viewer, author)
            self._follows.add((viewer, author))

    async def unfollow(self, viewer: int, author: int) -> None:
        """Follow no longer."""
        await self._api.unfollow(viewer, author)
        self._follows.discard((viewer, author))

    async def block(self, viewer: int, author: int) -> None:
        """Block, which ends the follows between the two."""
        await self._api.block(viewer, author)
        self._follows -= {(viewer, author), (author, viewer)}

    async def unblock(self, viewer: int, author: int) -> None:
        """Block no longer, which brings no follow back."""
        await self._api.unblock(viewer, author)

    async def mute(self, viewer: int, author: int) -> None:
        """Mute."""
        await self._api.mute(viewer, author)
        self._mutes.add((viewer, author))

    async def unmute(self, viewer: int, author: int) -> None:
        """Mute no longer."""
        await self._api.unmute(viewer, author)
        self._mutes.discard((viewer, author))

    async def post(self, author: int) -> int:
        """A new post's id."""
        post = int((await self._api.create_post(author, f"Something by {author}"))["id"])
        self._authors[post] = author
        return post

    async def posts_in_turn(self, authors: Sequence[int], each_posts: int) -> list[int]:
        """The authors post in turn, so often each; the ids, newest first."""
        return [await self.post(author) for _ in range(each_posts) for author in authors][::-1]

    async def posts_at_once(self, author: int, count: int) -> list[int]:
        """An author posts many times at once, where their order does not matter; the ids, newest first."""
        return sorted(await each([author] * count, self.post), reverse=True)

    async def delete(self, *posts: int) -> None:
        """The authors delete these posts."""

        async def delete_one(post: int) -> None:
            await self._api.delete_post(self._authors[post], post)
            self._deleted.add(post)

        await each(posts, delete_one)

    # --- what operators do -------------------------------------------------------------------------------------------

    async def suspend(self, mesh: Mesh, author: int) -> None:
        """Suspend an account."""
        await suspend(mesh, author)
        self._suspended.add(author)

    async def restore(self, mesh: Mesh, author: int) -> None:
        """Restore a suspended account."""
        await restore(mesh, author)
        self._suspended.discard(author)

    async def delete_account(self, mesh: Mesh, author: int) -> None:
        """Delete an account and all that it wrote."""
        await delete(mesh, author)
        self._deleted |= {post for post, by in self._authors.items() if by == author}

    # --- what has to show --------------------------------------------------------------------------------------------

    def author_of(self, post: int) -> int:
        """Who wrote a post, be it deleted or not."""
        return self._authors[post]

    def expected(self, viewer: int, *, below: int | None = None) -> list[int]:
        """The posts of a viewer's home feed, newest first: all, or those below a position."""
        authors = {author for follower, author in self._follows - self._mutes if follower == viewer} | {viewer}
        shown = authors - self._suspended
        return sorted(
            (
                post
                for post, author in self._authors.items()
                if author in shown and post not in self._deleted and (below is None or post < below)
            ),
            reverse=True,
        )

    async def check(self, viewer: int, *limits: int) -> None:
        """Walk a viewer's feed with pages of each of these lengths. AssertionError where it is not as expected."""
        for limit in limits:
            faults = await walk_faults(self._api, viewer, limit, self.expected(viewer))
            assert not faults, f"viewer {viewer}, {limit} a page: {faults}"

    async def check_cold(self, stored: StoredKeys, viewer: int, *limits: int) -> None:
        """The same, with nothing in Redis of the viewer before each page."""
        for limit in limits:
            faults = await walk_faults(
                self._api, viewer, limit, self.expected(viewer), lambda: stored.delete_viewer(viewer)
            )
            assert not faults, f"viewer {viewer}, cold, {limit} a page: {faults}"

    async def check_below(self, viewer: int, cursor: str, limit: int) -> None:
        """Follow a cursor. AssertionError where the page is not what lies below it."""
        page = await self._api.feed_page(viewer, limit, cursor)
        older = self.expected(viewer, below=int(cursor.partition(":")[2]))
        assert [int(item["id"]) for item in page["items"]] == older[:limit]
        assert ("nextCursor" in page) is (len(older) > limit)
