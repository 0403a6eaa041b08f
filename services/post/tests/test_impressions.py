"""One impression stands for all of a post in a view that are told at once."""

from hypothesis import given
from hypothesis import strategies as st
from post_service.impressions import Impression, View, merged

IMPRESSIONS = st.lists(
    st.builds(Impression, st.integers(1, 4), st.integers(0, 9), st.integers(0, 9), st.sampled_from(View)), max_size=20
)


@given(IMPRESSIONS)
def test_each_post_in_each_view_comes_once_with_its_first_position_and_its_longest_dwell(
    told: list[Impression],
) -> None:
    kept = {(impression.post_id, impression.view): impression for impression in merged(told)}
    assert len(kept) == len(merged(told))
    assert kept.keys() == {(impression.post_id, impression.view) for impression in told}
    for pair, impression in kept.items():
        of_pair = [other for other in told if (other.post_id, other.view) == pair]
        assert impression.position == of_pair[0].position
        assert impression.dwell_ms == max(other.dwell_ms for other in of_pair)


@given(IMPRESSIONS)
def test_merging_again_changes_nothing(told: list[Impression]) -> None:
    assert merged(merged(told)) == merged(told)
