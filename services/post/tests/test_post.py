"""Which drafts are posts, and what edits make of posts."""

import pytest
from feedkit.errors import InvalidArgument
from hypothesis import given
from hypothesis import strategies as st
from post_service.post import Draft, Edit, Medium, Post

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


MEDIA = st.sampled_from([(), (PICTURE,), (PICTURE, PICTURE._replace(alt_text="other"))])
CONTENT = st.sampled_from(["", " ", "text", "other"])


@given(CONTENT, MEDIA, st.none() | CONTENT, st.none() | MEDIA)
def test_an_edit_changes_what_it_names_and_nothing_else(
    content: str, media: tuple[Medium, ...], new_content: str | None, new_media: tuple[Medium, ...] | None
) -> None:
    post = Post(1, 7, content, media, edited_at_ms=3)
    wanted = (content if new_content is None else new_content, media if new_media is None else new_media)
    try:
        Draft(7, *wanted).check()
    except InvalidArgument:
        with pytest.raises(InvalidArgument):
            Edit(new_content, new_media).of(post)
    else:
        assert Edit(new_content, new_media).of(post) == Post(1, 7, *wanted, edited_at_ms=3)


@pytest.mark.parametrize(
    ("post", "edit", "field"),
    [
        (Post(1, 7, "text", (), 0), Edit(" ", None), "content"),
        (Post(1, 7, "text", (PICTURE,), 0), Edit("", ()), "content"),
        (Post(1, 7, "", (PICTURE,), 0), Edit(None, ()), "media"),
    ],
)
def test_an_edit_that_leaves_nothing_to_see_is_refused_by_name(post: Post, edit: Edit, field: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        edit.of(post)
    assert [violation.field for violation in refusal.value.violations] == [field]
