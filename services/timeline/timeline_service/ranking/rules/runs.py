"""Nobody speaks too long in a row."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Lets an author have only so many posts in a row, as long as there are posts of others."""

    name: ClassVar[str] = "runs"

    most: int = 2
    """How many posts in a row: 2 or more."""

    def __post_init__(self) -> None:
        """Refuse what cannot be kept beside guaranteed places."""
        if self.most < 2:
            raise ValueError(f"most is {self.most}, not 2 or more")
