"""A social graph to test on: the Reed98 friendships where their file lies beside the checkout, else a generated one.

Reed98 (962 people, 18,812 friendships) is from the Network Data Repository (Rossi and Ahmed, AAAI 2015).
"""

import os
import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

PEOPLE = 962
FRIENDSHIPS = 18_812

_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data" / "socfb-Reed98.edges"
FILE = Path(os.environ.get("FEED_TEST_GRAPH", _BESIDE))


def friendships() -> Mapping[int, list[int]]:
    """Person, numbered from 0, to their friends, ascending. Each friendship is two follows."""
    edges = _read() if FILE.exists() else _generate()
    friends: dict[int, set[int]] = defaultdict(set)
    for one, other in edges:
        friends[one].add(other)
        friends[other].add(one)
    return {person: sorted(friends[person]) for person in range(PEOPLE)}


def _read() -> set[tuple[int, int]]:
    lines = FILE.read_text(encoding="ascii").split("\n")
    return {(int(one), int(other)) for one, other in (line.split() for line in lines if line)}


def _generate() -> set[tuple[int, int]]:
    """Preferential attachment: whoever has many friends makes more, so the tail is heavy as in the real one."""
    random_ = random.Random(98)
    edges: set[tuple[int, int]] = set()
    ends = list(range(PEOPLE))
    while len(edges) < FRIENDSHIPS:
        one, other = random_.choice(ends), random_.choice(ends)
        edge = (min(one, other), max(one, other))
        if one != other and edge not in edges:
            edges.add(edge)
            ends += edge
    return edges
