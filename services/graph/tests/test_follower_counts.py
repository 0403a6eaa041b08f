"""The parts of a follower count."""

from collections import Counter

import pytest
from graph_service.follower_counts import SHARDS, shard_of
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(1, 2**63 - 1))
def test_every_follower_belongs_to_a_part(follower_id: int):
    assert 0 <= shard_of(follower_id) < SHARDS


@pytest.mark.parametrize("stride", [1, 2, 3, 10, 16, 1000, 4096])
def test_followers_spread_evenly_however_their_ids_are_spaced(stride: int):
    sizes = Counter(shard_of(i * stride) for i in range(1, 16_001))
    assert len(sizes) == SHARDS
    assert max(sizes.values()) < 2 * 16_000 / SHARDS


def test_the_part_of_a_follower_is_the_same_for_ever():
    # The database holds sums by these numbers: another function would take followers out of parts they are not in.
    assert [shard_of(i) for i in (1, 2, 3, 1_000_000, 2**63 - 1)] == [9, 3, 13, 15, 14]
