"""Relays that know one another agree on who has how many shards."""

from uuid import UUID

from feedkit.outbox_leases import SHARDS, fair_share
from hypothesis import given
from hypothesis import strategies as st

RELAYS = st.sets(st.uuids(), min_size=1, max_size=20)


@given(RELAYS)
def test_the_shares_of_all_relays_are_all_shards(relays: set[UUID]) -> None:
    assert sum(fair_share(relay, relays - {relay}) for relay in relays) == SHARDS


@given(RELAYS)
def test_no_share_is_more_than_one_larger_than_another(relays: set[UUID]) -> None:
    shares = [fair_share(relay, relays - {relay}) for relay in relays]
    assert max(shares) - min(shares) <= 1


@given(st.uuids(), RELAYS)
def test_a_relay_that_is_told_of_itself_counts_itself_once(relay: UUID, others: set[UUID]) -> None:
    assert fair_share(relay, others | {relay}) == fair_share(relay, others - {relay})
