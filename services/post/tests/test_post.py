"""Which drafts are posts."""

import pytest
from feedkit.errors import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st
from post_service.post import Draft, Medium

PICTURE = Medium("https://media.example/1.webp", "image/webp", 0, 0, "")


@pytest.mark.parametrize("content", ["", " ", "\t\r\n", "\u00a0", "\u2003\u3000", "\u200b", "\ufeff", "\u2060\u200d"])
def test_text_that_shows_nothing_is_refused_by_name(content: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        Draft(1, content, ()).check()
    assert refusal.value.violations == (("content", "must not be blank unless there are media"),)


@pytest.mark.parametrize("content", [".", " a ", "\u200bx", "👩‍👧", "\u0301"])
def test_text_that_shows_anything_is_a_post(content: str) -> None:
    Draft(1, content, ()).check()


@given(st.text(alphabet=" \t\n\u00a0\u200b"))
def test_media_need_no_text(content: str) -> None:
    Draft(1, content, (PICTURE,)).check()
