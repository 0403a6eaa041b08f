"""What other services remember of users."""

from collections.abc import Sequence
from typing import Protocol


class Caches(Protocol):
    """What other services remember of users."""

    async def forget(
        self, *, contexts: Sequence[int] = (), hidden: Sequence[int] = (), users: Sequence[int] = ()
    ) -> None:
        """See that nothing from before now is remembered of users.

        `contexts`: whom these viewers follow; `hidden`: whose posts are withheld from these viewers; `users`: these users'
        names and standing. It ends in less than a second. Where it cannot be done in that, it is done behind the change.
        """
        ...
