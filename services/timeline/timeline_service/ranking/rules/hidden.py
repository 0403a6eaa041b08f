"""What the viewer has hidden goes last."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Places every hidden post below every other one."""

    name: ClassVar[str] = "hidden"
