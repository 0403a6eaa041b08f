"""Everything that is shown to somebody, read through the front door and held against what may and what must be shown."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import httpx
from feed_api import FeedApi
from feedctl.oracle import Walk

from tests.oracle.acting import NOBODY
from tests.oracle.difference import Difference
from tests.oracle.ledger import Ledger, Possible, standing
from tests.oracle.steps import Standing, Tie

BATCH = 100
"""How many posts can be asked for by id at once."""
TOP = 1 << 62
MOST_PAGES = 2000


class Stranger(NamedTuple):
    """A post that was seen before its writing was acknowledged; then it has to turn out to have been right."""

    where: str
    viewer: int | None
    post: int
    possible: Possible
    in_feed: bool


class Reading:
    """Reads for people, who are given by their ids."""

    def __init__(self, api: FeedApi, ledger: Ledger) -> None:
        self._api = api
        self._ledger = ledger
        self._strangers: list[Stranger] = []

    def everybody_is_known(self) -> None:
        """Whoever was writing has ended: all posts that were seen have been acknowledged, and were in the right places."""
        strangers, self._strangers = self._strangers, []
        for where, viewer, post, possible, in_feed in strangers:
            written = self._ledger.posts.get(post)
            if written is None:
                raise Difference(f"{where}: shows post {post}, which nobody has written")
            if not possible.show_author(viewer, written.author, in_feed=in_feed):
                raise Difference(f"{where}: shows post {post}: {possible.why(viewer, post)}")

    # --- the feed --------------------------------------------------------------------------------------------------------

    async def feed(self, viewer: int, limit: int, cursor: str | None = None) -> Walk | None:
        """Walk a feed to its end, from the top or from a cursor; None where the viewer is gone.

        Raises Difference where it shows what it must not, or not what it must.
        """
        before = self._ledger.moment()
        items, pages, cursors = await self._walk("/api/feed", viewer, limit, cursor)
        possible = self._ledger.since(before)
        where = f"feed of {viewer}, {limit} a page" + ("" if cursor is None else f", from {cursor}")
        if items is None:
            if Standing.DELETED not in possible.of(standing(viewer)):
                raise Difference(f"{where}: refused, as if there were no such viewer")
            return None
        if possible.of(standing(viewer)) == {Standing.DELETED}:
            raise Difference(f"{where}: shown to somebody who was deleted")
        below = TOP if cursor is None else _position(cursor)
        self._check_items(where, viewer, items, possible, in_feed=True)
        required = {post for post in possible.feed_has_to_show(viewer) if post < below}
        _nothing_lost(where, required, items)
        if any(int(item["id"]) >= below for item in items):
            raise Difference(f"{where}: goes back above its cursor")
        return Walk(viewer, limit, pages, cursors)

    async def ranked(self, viewer: int, limit: int) -> set[int] | None:
        """Walk the ranked view to its end: the posts of the feed in another order. None where the viewer is gone.

        Raises Difference as `feed` does.
        """
        before = self._ledger.moment()
        items, _, _ = await self._walk("/api/feed", viewer, limit, view="ranked")
        if items is None:
            return None
        possible = self._ledger.since(before)
        where = f"ranked feed of {viewer}, {limit} a page"
        shown = [int(item["id"]) for item in items]
        if len(set(shown)) < len(shown):
            raise Difference(f"{where}: something twice: {shown}")
        self._check_each(where, viewer, items, possible, in_feed=True)
        _nothing_lost(where, possible.feed_has_to_show(viewer), items)
        return set(shown)

    async def page(self, viewer: int, limit: int) -> str | None:
        """The cursor after the first page, where there is one."""
        response = await self._api.call("GET", "/api/feed", viewer=viewer, params={"limit": str(limit)})
        return response.json().get("nextCursor") if response.is_success else None

    # --- the same posts elsewhere ----------------------------------------------------------------------------------------

    async def elsewhere(self, viewer: int | None, authors: Iterable[int]) -> None:
        """Read the pages of authors, and their posts one by one. Raises Difference as `feed` does."""
        await asyncio.gather(
            *(work for author in authors for work in (self._author_page(viewer, author), self._by_id(viewer, author)))
        )

    async def _author_page(self, viewer: int | None, author: int) -> None:
        before = self._ledger.moment()
        items, _, _ = await self._walk(f"/api/users/{author}/posts", viewer, 50)
        possible = self._ledger.since(before)
        where = f"page of {author} for {viewer or 'nobody in particular'}"
        if items is None:
            if Standing.DELETED not in possible.of(standing(author)):
                raise Difference(f"{where}: refused, as if there were no such user")
            return
        if possible.of(standing(author)) == {Standing.DELETED}:
            raise Difference(f"{where}: shown, of somebody who was deleted")
        self._check_items(where, viewer, items, possible, in_feed=False)
        if any(int(item["authorId"]) != author for item in items):
            raise Difference(f"{where}: shows what others wrote")
        _nothing_lost(where, possible.has_to_show(viewer, self._of(author)), items)

    async def _by_id(self, viewer: int | None, author: int) -> None:
        asked = sorted(self._of(author), reverse=True)[:BATCH]
        if not asked:
            return
        before = self._ledger.moment()
        response = await self._api.call("GET", "/api/posts", viewer=viewer, params={"ids": ",".join(map(str, asked))})
        if not response.is_success:
            raise Difference(f"posts of {author} by id: {response.status_code} {response.text}")
        possible = self._ledger.since(before)
        items = response.json()["items"]
        where = f"posts of {author} by id for {viewer or 'nobody in particular'}"
        self._check_items(where, viewer, items, possible, in_feed=False)
        _nothing_lost(where, possible.has_to_show(viewer, asked), items)

    def _of(self, author: int) -> list[int]:
        return [post.id for post in self._ledger.posts.values() if post.author == author]

    # --- accounts --------------------------------------------------------------------------------------------------------

    async def accounts(self) -> None:
        """Read how everybody stands, whom they are tied to, and how many; what is acknowledged has to be exactly so."""
        ledger = self._ledger
        response = await self._api.get("/api/users", ids=",".join(map(str, ledger.people)))
        shown = {
            int(user["id"]): (user["followerCount"], user["followingCount"], user["suspended"])
            for user in response["items"]
        }
        right = {
            person: (
                len(ledger.bound(Tie.FOLLOW, other=person)),
                len(ledger.bound(Tie.FOLLOW, person=person)),
                ledger.value(standing(person)) is Standing.SUSPENDED,
            )
            for person in ledger.living()
        }
        if shown != right:
            raise Difference(f"followers, followees, suspended: {shown} instead of {right}")
        await asyncio.gather(*map(self._ties, ledger.living()))

    async def _ties(self, person: int) -> None:
        ledger = self._ledger
        for path, viewer, right in (
            (f"/api/users/{person}/followers", None, ledger.bound(Tie.FOLLOW, other=person)),
            (f"/api/users/{person}/following", None, ledger.bound(Tie.FOLLOW, person=person)),
            ("/api/blocks", person, ledger.bound(Tie.BLOCK, person=person)),
            ("/api/mutes", person, ledger.bound(Tie.MUTE, person=person)),
        ):
            items, _, _ = await self._walk(path, viewer, 3)
            shown = sorted(int(user["id"]) for user in items or ())
            if shown != right:
                raise Difference(f"GET {path} for {person}: {shown} instead of {right}")

    # --- what was shown --------------------------------------------------------------------------------------------------

    def _check_items(
        self, where: str, viewer: int | None, items: Sequence[dict[str, Any]], possible: Possible, *, in_feed: bool
    ) -> None:
        """Newest first, and each as it has to be."""
        shown = [int(item["id"]) for item in items]
        if any(newer <= older for newer, older in pairwise(shown)):
            raise Difference(f"{where}: not newest first, or twice: {shown}")
        self._check_each(where, viewer, items, possible, in_feed=in_feed)

    def _check_each(
        self, where: str, viewer: int | None, items: Sequence[dict[str, Any]], possible: Possible, *, in_feed: bool
    ) -> None:
        """Nothing that must not be shown, and everything as it was written last."""
        for item in items:
            post = int(item["id"])
            if post not in self._ledger.posts:
                self._strangers.append(Stranger(where, viewer, post, possible, in_feed))
                continue
            if not possible.show(viewer, post, in_feed=in_feed):
                raise Difference(f"{where}: shows post {post}: {possible.why(viewer, post)}")
            self._check_words(f"{where}: post {post}", item, possible)

    def _check_words(self, where: str, item: dict[str, Any], possible: Possible) -> None:
        post = self._ledger.posts[int(item["id"])]
        said = (item["content"], item["editedAt"] is not None)
        if said not in possible.texts(post.id):
            raise Difference(f"{where}: says {said}, not {possible.texts(post.id)}")
        name = f"Person {self._ledger.people.index(post.author)}"
        if (int(item["authorId"]), item["author"]["name"]) != (post.author, name):
            raise Difference(f"{where}: by {item['author']} instead of {post.author}, {name}")

    async def _walk(
        self, path: str, viewer: int | None, limit: int, cursor: str | None = None, **more: str
    ) -> tuple[list[dict[str, Any]] | None, tuple[tuple[int, ...], ...], tuple[str, ...]]:
        """The items, the ids page by page, and the cursors between; no items where there is nobody to show or to see."""
        items: list[dict[str, Any]] = []
        pages: list[tuple[int, ...]] = []
        cursors: list[str] = []
        while len(pages) < MOST_PAGES:
            params = {"limit": str(limit), **more} | ({} if cursor is None else {"cursor": cursor})
            response = await self._api.call("GET", path, viewer=viewer, params=params)
            if _says_nobody(response):
                return None, (), ()
            if not response.is_success:
                raise Difference(f"GET {path} for {viewer}: {response.status_code} {response.text}")
            page = response.json()
            if page.get("notice") is not None:
                # The order is lost with Redis, and the walk begins anew.
                items.clear()
            items += page["items"]
            pages.append(tuple(int(item["id"]) for item in page["items"]))
            cursor = page.get("nextCursor")
            if cursor is None:
                return items, tuple(pages), tuple(cursors)
            cursors.append(cursor)
        raise Difference(f"GET {path} for {viewer}: no end after {MOST_PAGES} pages")


def _says_nobody(response: httpx.Response) -> bool:
    return response.is_client_error and response.json()["reason"] in {NOBODY, "USER_NOT_FOUND"}


def _nothing_lost(where: str, required: set[int], items: Sequence[dict[str, Any]]) -> None:
    if lost := sorted(required - {int(item["id"]) for item in items}, reverse=True):
        raise Difference(f"{where}: lost {lost}")


def _position(cursor: str) -> int:
    return int(cursor.partition(":")[2])
