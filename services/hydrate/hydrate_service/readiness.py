"""When this process may be sent calls."""

from collections.abc import Awaitable, Callable

from feedkit.errors import Unavailable


def once(reached: Callable[[], bool], dependency: str) -> Callable[[], Awaitable[None]]:
    """A check of a service that is needed, which passes for good as soon as that has been `reached` once.

    A service that is down later is told by answers, as far as they need it. Were this process to call itself not ready
    then, one outage would take every process above it away too.
    """
    passed = False

    async def check() -> None:
        nonlocal passed
        passed = passed or reached()
        if not passed:
            raise Unavailable.of_dependency(dependency)

    return check
