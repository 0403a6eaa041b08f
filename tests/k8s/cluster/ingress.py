"""The public API through all gateways, as an ingress controller lets people reach them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from feed_api import FeedApi

RETRIES = 1
"""The retry budget: how often one request may be sent again, to another gateway where there is one. Only where a connection
ended without an answer, and only because every request may be repeated: those that create carry an Idempotency-Key, and
all others are idempotent by contract. An answer is an answer, 502 to 504 too."""


@dataclass(frozen=True)
class Retry:
    """A request that was sent again."""

    at: float
    """In seconds of the monotonic clock."""
    request: str
    why: str


class Ingress(FeedApi):
    """Balances over the gateways that serve, as far as the news has got."""

    def __init__(self, gateways: Callable[[], Sequence[str]]) -> None:
        super().__init__("http://no.gateway.invalid")
        self.retries: list[Retry] = []
        self.requests = 0
        self.slowest_seconds = 0.0
        self._gateways = gateways

    async def call(
        self,
        method: str,
        path: str,
        *,
        viewer: int | None = None,
        json: Any = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """One call; the answer as it is. Raises httpx.TransportError where the retry budget has not sufficed."""
        sent = {**(headers or {}), **({} if viewer is None else {"X-User-Id": str(viewer)})}
        began = time.monotonic()
        self.requests += 1
        for turn in range(self.requests, self.requests + 1 + RETRIES):
            gateways = self._gateways()
            url = gateways[turn % len(gateways)] + path
            try:
                response = await self.http.request(method, url, json=json, params=params, headers=sent)
            except httpx.TransportError as error:
                self.retries.append(Retry(time.monotonic(), f"{method} {url}", repr(error)))
                if turn == self.requests + RETRIES:
                    raise
            else:
                self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
                return response
        raise AssertionError("unreachable")
