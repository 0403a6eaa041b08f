"""Idempotency keys stand for one request, and for no other."""

import pytest
from feedkit.errors import FailedPrecondition
from hypothesis import given
from hypothesis import strategies as st
from post_service.idempotency import Earlier, Key, check_same, fingerprint
from post_service.post import Draft, Medium

MEDIA = st.builds(Medium, st.text(), st.text(), st.integers(0, 9), st.integers(0, 9), st.text())
DRAFTS = st.builds(Draft, st.just(1), st.text(), st.lists(MEDIA, max_size=3).map(tuple), st.integers(0, 3))


@given(DRAFTS, DRAFTS)
def test_fingerprints_are_equal_exactly_where_drafts_are(one: Draft, other: Draft) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


def test_drafts_that_reply_to_different_posts_differ() -> None:
    draft = Draft(1, "text", ())
    assert len({fingerprint(draft._replace(reply_to=post_id)) for post_id in (0, 5, 6)}) == 3


def test_a_fingerprint_outlives_the_process_that_made_it() -> None:
    draft = Draft(1, "Grüße", (Medium("https://a.example/1", "image", 1, 2, "☀"),))
    assert fingerprint(draft).hex() == "8f7b2e961310f0d73b0057d63ad5aaa1937fb2e26f0836897fa707fbb33ea884"


def test_a_fingerprint_tells_text_in_one_place_from_the_same_text_in_another() -> None:
    one = Draft(1, "a", (Medium("b", "c", 0, 0, ""),))
    other = Draft(1, "a", (Medium("", "c", 0, 0, "b"),))
    assert fingerprint(one) != fingerprint(other)


def test_a_key_that_was_used_for_another_post_is_refused() -> None:
    key = Key.of(Draft(1, "new text", ()), "k")
    with pytest.raises(FailedPrecondition) as refusal:
        check_same(key, Earlier(fingerprint(Draft(1, "old text", ())), post_id=5))
    assert refusal.value.reason == "IDEMPOTENCY_KEY_REUSED"
