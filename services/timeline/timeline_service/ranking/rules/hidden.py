"""What the viewer has hidden goes last."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from feedrank.candidates import Candidates
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Places every hidden post below every other one."""

    name: ClassVar[str] = "hidden"

    def rows(self, candidates: Candidates) -> NDArray[np.bool_]:
        """Which rows (n,) go last."""
        return candidates.was_hidden
