"""People who read and write all the time, and take note of everything that goes wrong."""

import asyncio
import random
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import httpx
from ledger import Ledger
from walks import each

from tests.k8s.cluster.ingress import Ingress

AUTHORS = 6
READERS = 6
CROWD = 32
"""Beside the authors and the readers: so many follow the celebrity that posts of theirs are pulled (the tree has 30)."""
PAUSE_SECONDS = (0.5, 1.5)
"""Between one act of a person and the next: some thirty requests a second together."""
PAGE = 20


class Load:
    """A small world and its traffic. The first author is the celebrity."""

    def __init__(self, ingress: Ingress) -> None:
        self.ingress = ingress
        self.ledger = Ledger(ingress)
        self.authors: list[int] = []
        self.readers: list[int] = []
        self.failures: list[str] = []
        self._recent: deque[int] = deque(maxlen=50)
        self._chance = random.Random(6)
        self._over = False

    async def prepare(self) -> None:
        """Make everybody, and let each reader follow every author, and the crowd the celebrity."""
        self.authors = await self.ledger.users("Author", AUTHORS)
        self.readers = await self.ledger.users("Reader", READERS)
        crowd = await self.ledger.users("Fan", CROWD)
        await each(self.readers, lambda reader: self.ledger.follow(reader, *self.authors))
        await each(crowd, lambda fan: self.ledger.follow(fan, self.authors[0]))
        self._recent.extend(await each(self.authors, self.ledger.post))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Traffic, until the end of the block."""
        acts = [(author, self._write) for author in self.authors] + [(reader, self._read) for reader in self.readers]
        self._over = False
        tasks = [asyncio.create_task(self._live(person, act)) for person, act in acts]
        try:
            yield
        finally:
            self._over = True
            await asyncio.gather(*tasks)

    async def _live(self, person: int, act: Callable[[int], Awaitable[None]]) -> None:
        began = time.monotonic()
        while not self._over:
            try:
                await act(person)
            except (AssertionError, httpx.TransportError) as error:
                self.failures.append(f"{time.monotonic() - began:.1f} s, {person}: {error!r}")
            await asyncio.sleep(self._chance.uniform(*PAUSE_SECONDS))

    async def _write(self, author: int) -> None:
        """A post, which its author sees at once, and now and then the end of one."""
        post = await self.ledger.post(author)
        assert post in await self._page(author), f"{author} does not see post {post} of their own"
        if self._chance.random() < 0.2:
            await self.ledger.delete(post)
            assert post not in await self._page(author), f"{author} sees post {post}, which is deleted"
        else:
            self._recent.append(post)

    async def _read(self, reader: int) -> None:
        """A look at the home in either view and at an author's page; a like and its end; at times a break with somebody."""
        await self._page(reader, view=self._chance.choice(["latest", "ranked"]))
        author, post = self._chance.choice(self.authors[1:]), self._chance.choice(self._recent)
        await self.ingress.get(f"/api/users/{author}/posts", viewer=reader)
        await self.ingress.engage(reader, post, "like")
        await self.ingress.disengage(reader, post, "like")
        if self._chance.random() < 0.1:
            await self.ledger.unfollow(reader, author)
            await self._shows_nothing_of(author, reader)
            await self.ledger.follow(reader, author)

    async def _shows_nothing_of(self, author: int, reader: int) -> None:
        shown = {self.ledger.author_of(post) for post in await self._page(reader)}
        assert author not in shown, f"{reader} sees posts of {author}, whom they follow no longer"

    async def _page(self, viewer: int, view: str = "latest") -> Sequence[int]:
        page = await self.ingress.feed(viewer, view=view, limit=str(PAGE))
        return [int(item["id"]) for item in page["items"]]
