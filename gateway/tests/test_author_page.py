"""What a page of an author's posts shows, and where it ends."""

import pytest
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feedkit.cursor import Position
from feedkit.errors import Unavailable

from gateway import author_page


def shown(post_id: int) -> hydrate_pb2.Hydration:
    return hydrate_pb2.Hydration(
        post_id=post_id, post=hydrate_pb2.HydratedPost(post=post_pb2.Post(id=post_id), author_name="Ada")
    )


def withheld(
    post_id: int, reason: hydrate_pb2.WithheldReason.ValueType = hydrate_pb2.WITHHELD_REASON_NOT_FOUND
) -> hydrate_pb2.Hydration:
    return hydrate_pb2.Hydration(post_id=post_id, withheld=reason)


def unavailable(post_id: int) -> hydrate_pb2.Hydration:
    return hydrate_pb2.Hydration(post_id=post_id, unavailable=hydrate_pb2.Unavailable(dependency="post"))


def cut(*hydrations: hydrate_pb2.Hydration) -> tuple[list[int], str]:
    posts, cursor = author_page.cut(hydrations, "next")
    return [post.post.id for post in posts], cursor


def test_a_whole_page_goes_on_where_the_list_goes_on() -> None:
    assert cut(shown(9), shown(8)) == ([9, 8], "next")


def test_what_is_withheld_is_left_out_and_the_cursor_stays() -> None:
    assert cut(withheld(9), shown(8), withheld(7)) == ([8], "next")


def test_a_page_of_nothing_but_withheld_posts_still_goes_on() -> None:
    assert cut(withheld(9)) == ([], "next")


@pytest.mark.parametrize(
    "reason",
    [
        hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND,
        hydrate_pb2.WITHHELD_REASON_AUTHOR_SUSPENDED,
        hydrate_pb2.WITHHELD_REASON_BLOCKED,
    ],
)
def test_where_the_author_is_withheld_there_is_nothing_and_no_way_on(
    reason: hydrate_pb2.WithheldReason.ValueType,
) -> None:
    assert cut(withheld(9, reason), withheld(8, reason)) == ([], "")
    assert cut(unavailable(9), withheld(8), withheld(7, reason)) == ([], "")


def test_a_page_ends_before_what_is_unavailable_and_comes_back_for_it() -> None:
    assert cut(shown(9), withheld(8), unavailable(7), shown(6)) == ([9], str(Position.of(8)))


def test_where_the_first_is_unavailable_there_is_no_way_on() -> None:
    with pytest.raises(Unavailable):
        cut(unavailable(9), shown(8))
