"""Whatever breaks a rule of the contract is refused with the field named."""

import pytest
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feedkit.errors import InvalidArgument
from feedkit.validation import Undecodable, check
from google.protobuf.message import DecodeError, Message


def media(url: str) -> post_pb2.MediaReference:
    return post_pb2.MediaReference(url=url, type="image", width=1, height=1)


GOOD = media("https://example.com/a.webp")


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        (graph_pb2.GetUserRequest(user_id=0), ["user_id"]),
        (graph_pb2.FollowRequest(actor_id=-1, followee_id=0), ["actor_id", "followee_id"]),
        (hydrate_pb2.HydratePostsRequest(post_ids=[1, 0, 3]), ["post_ids[1]"]),
        (hydrate_pb2.HydratePostsRequest(post_ids=range(1, 102)), ["post_ids"]),
        (post_pb2.CreatePostRequest(author_id=1, content="a", media=[media("no URL")]), ["media[0].url"]),
        (post_pb2.CreatePostRequest(author_id=1, content="a", media=[GOOD, media("")]), ["media[1].url"]),
    ],
    ids=lambda value: value.DESCRIPTOR.name if isinstance(value, Message) else None,
)
def test_each_broken_rule_names_its_field_by_path(request_: Message, fields: list[str]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        check(request_)
    assert refused.value.reason == "INVALID_FIELD"
    assert [violation.field for violation in refused.value.violations] == fields
    assert all(violation.rule for violation in refused.value.violations)


@pytest.mark.parametrize(
    "request_",
    [
        graph_pb2.GetUserRequest(user_id=2**63 - 1),
        hydrate_pb2.HydratePostsRequest(post_ids=range(1, 101)),
        post_pb2.CreatePostRequest(author_id=1, content="字" * 5000, media=[GOOD] * 10),
    ],
    ids=lambda value: value.DESCRIPTOR.name,
)
def test_requests_at_the_limits_pass(request_: Message) -> None:
    check(request_)


@pytest.mark.parametrize("name", ["", "   ", "a\x00b", "a\nb", "a" * 101])
def test_texts_that_are_no_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="name"):
        check(graph_pb2.CreateUserRequest(name=name))


def test_rules_are_told_without_control_characters() -> None:
    with pytest.raises(InvalidArgument) as refused:
        check(graph_pb2.CreateUserRequest(name="a\x00b\x1b"))
    assert refused.value.message.isprintable()


def test_bytes_that_are_no_message_are_a_wrong_argument() -> None:
    with pytest.raises(InvalidArgument, match="must be a valid protobuf message: torn") as refused:
        check(Undecodable(DecodeError("torn")))
    assert [violation.field for violation in refused.value.violations] == ["request"]
