"""A resource: one path and what its methods do, each within the request's deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from feedkit import deadline
from feedkit.errors import DeadlineExceeded
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from gateway.answers import Answer
from gateway.problems import METHOD_NOT_ALLOWED, Problem

Handler = Callable[[Request], Awaitable[Answer]]
Methods = Mapping[str, Handler]
Paths = Mapping[str, Methods]
"""Path template → method → handler: what each module of `gateway.routes` contributes."""


class Resource:
    """Serves one path. GET serves HEAD too."""

    def __init__(self, methods: Methods, seconds: float) -> None:
        """`seconds` is the longest that a request may take."""
        self._methods = dict(methods)
        if "GET" in methods:
            self._methods["HEAD"] = methods["GET"]
        self._allow = ", ".join(sorted(self._methods)).encode()
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises Problem and FeedError."""
        handler = self._methods.get(scope["method"])
        if handler is None:
            raise self._not_allowed(scope["method"])
        try:
            with deadline.within(self._seconds):
                async with asyncio.timeout(self._seconds):
                    answer = await handler(Request(scope, receive))
        except TimeoutError:
            raise DeadlineExceeded from None
        await answer.send(send)

    def _not_allowed(self, method: str) -> Problem:
        return Problem(
            HTTPStatus.METHOD_NOT_ALLOWED,
            METHOD_NOT_ALLOWED,
            f"there is no {method} here, only {self._allow.decode()}",
            headers=[(b"allow", self._allow)],
        )
