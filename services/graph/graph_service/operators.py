"""Who is an operator: whoever has the operators' token."""

import hmac
from collections.abc import Sequence

from feedkit.errors import PermissionDenied

_SCHEME = "bearer"


class Operators:
    """Tells operators from everybody else."""

    def __init__(self, token: str) -> None:
        """`token`: what only operators know; where it is empty, nobody is one."""
        self._token = token.encode()

    def require(self, authorizations: Sequence[str]) -> None:
        """Raise PermissionDenied unless this is, once and alone, an operator's `Bearer <token>`.

        It takes as long for any token of one length, so that nobody learns how much of theirs was right.
        """
        # Of two that disagree, nobody knows which is meant.
        authorization = authorizations[0] if len(authorizations) == 1 else ""
        scheme, _, token = authorization.partition(" ")
        known = hmac.compare_digest(token.encode(), self._token)
        if not (self._token and known and scheme.lower() == _SCHEME):
            raise PermissionDenied("OPERATOR_REQUIRED", "only an operator may do this")
