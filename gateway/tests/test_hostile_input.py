"""Whatever a client sends is answered, and never as a fault of ours.

The application is the real one; behind it stand stubs that hold every request against its contract, as the services do,
but fail the test instead of refusing: nothing invalid may reach them.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from feed.graph.v1 import graph_pb2
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2
from feedkit import validation
from feedkit.errors import InvalidArgument
from gateway.config import AuthMode, GatewaySettings
from gateway.routes.health import Health
from gateway.services import Services
from google.protobuf.message import Message as ProtobufMessage
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from gateway import app

POST = post_pb2.Post(id=1, author_id=1, content="hi")
USER = graph_pb2.User(id=1, name="Ada")
SHOWN = hydrate_pb2.Hydration(post_id=1, post=hydrate_pb2.HydratedPost(post=POST, author_name="Ada"))
ANSWERS: dict[str, ProtobufMessage] = {
    "BatchFollow": graph_pb2.BatchFollowResponse(),
    "BatchGetRelationships": graph_pb2.BatchGetRelationshipsResponse(),
    "BatchGetUsers": graph_pb2.BatchGetUsersResponse(users=[USER]),
    "Block": graph_pb2.BlockResponse(),
    "ChooseHomeView": graph_pb2.ChooseHomeViewResponse(),
    "CreatePost": post_pb2.CreatePostResponse(post=POST),
    "CreateUser": graph_pb2.CreateUserResponse(user=USER),
    "DeletePost": post_pb2.DeletePostResponse(),
    "Disengage": post_pb2.DisengageResponse(),
    "EditPost": post_pb2.EditPostResponse(post=POST),
    "Engage": post_pb2.EngageResponse(),
    "Favour": graph_pb2.FavourResponse(),
    "Follow": graph_pb2.FollowResponse(),
    "GetHomeTimeline": timeline_pb2.GetHomeTimelineResponse(view=timeline_pb2.VIEW_RANKED),
    "GetHomeView": graph_pb2.GetHomeViewResponse(view=graph_pb2.HOME_VIEW_LATEST),
    "GetUser": graph_pb2.GetUserResponse(user=USER),
    "GiveFeedback": post_pb2.GiveFeedbackResponse(),
    "HydratePosts": hydrate_pb2.HydratePostsResponse(hydrations=[SHOWN]),
    "ListAuthorPostIds": post_pb2.ListAuthorPostIdsResponse(post_ids=[1]),
    "ListBlocked": graph_pb2.ListBlockedResponse(),
    "ListFavourites": graph_pb2.ListFavouritesResponse(),
    "ListFollowees": graph_pb2.ListFolloweesResponse(),
    "ListFollowers": graph_pb2.ListFollowersResponse(),
    "ListMuted": graph_pb2.ListMutedResponse(),
    "Mute": graph_pb2.MuteResponse(),
    "RecordImpressions": post_pb2.RecordImpressionsResponse(),
    "Unblock": graph_pb2.UnblockResponse(),
    "Unfavour": graph_pb2.UnfavourResponse(),
    "Unfollow": graph_pb2.UnfollowResponse(),
    "Unmute": graph_pb2.UnmuteResponse(),
}
# What graph makes of a page token, and refuses, is its own business.
OPAQUE = "page_token"


class Stub:
    """Any of the four services."""

    def __getattr__(self, method: str) -> Callable[[ProtobufMessage], Awaitable[ProtobufMessage]]:
        answer = ANSWERS[method]

        async def call(request: ProtobufMessage) -> ProtobufMessage:
            try:
                validation.check(request)
            except InvalidArgument as error:
                if [violation.field for violation in error.violations] != [OPAQUE]:
                    pytest.fail(f"{method} was called with an invalid request: {error}")
                raise
            return answer

        return call


STUB = cast("Any", Stub())
SETTINGS = GatewaySettings(auth_mode=AuthMode.DEV)
APP = app.create(Services(STUB, STUB, STUB, STUB), Health(), SETTINGS)

Headers = list[tuple[bytes, bytes]]
IDENTITY: Headers = [(b"x-user-id", b"1")]


async def call(
    method: str, path: str, *, query: bytes = b"", headers: Headers = IDENTITY, body: bytes = b""
) -> tuple[int, Any]:
    """Status and JSON of an answer, after checking that it is one of ours."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    length: Headers = [(b"content-length", b"%d" % len(body))] if body else []
    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "query_string": query,
        "headers": [*headers, *length],
    }
    await APP(scope, receive, send)
    status: int = sent[0]["status"]
    text = b"".join(message["body"] for message in sent[1:])
    document: Any = json.loads(text) if text else None
    if status >= 400 and path != "/readyz":
        assert dict(sent[0]["headers"])[b"content-type"] == b"application/problem+json"
        assert (document["status"], len(document["traceId"])) == (status, 32)
        assert {"type", "title", "detail", "reason"} <= document.keys()
    return status, document


WRITES = [
    ("POST", "/api/users"),
    ("POST", "/api/posts"),
    ("PATCH", "/api/posts/1"),
    ("POST", "/api/following"),
    ("POST", "/api/posts/1/feedback"),
    ("POST", "/api/feed/impressions"),
    ("PUT", "/api/feed/view"),
]
READS = [
    "/api/feed",
    "/api/feed/view",
    "/api/favourites",
    "/api/posts",
    "/api/posts/1",
    "/api/users",
    "/api/users/1",
    "/api/users/1/posts",
    "/api/users/1/followers",
    "/api/users/1/following",
    "/api/relationships",
    "/api/blocks",
    "/api/mutes",
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
MEDIA = st.fixed_dictionaries(
    {"url": st.text() | st.just("https://x.example/a"), "type": st.text() | st.just("image")},
    optional={"width": st.integers(), "height": st.integers(), "altText": st.text()},
)
IDS = st.integers() | st.integers().map(str) | st.text()
IMPRESSION = st.fixed_dictionaries(
    {"postId": IDS, "position": st.integers(-1, 100_001), "dwellMs": st.integers() | st.integers(-1, 3_600_001)},
    optional={"view": st.sampled_from(["latest", "ranked", "best", "", "LATEST"])},
)
# Members of the right names, and mostly of the right types, reach deeper than arbitrary JSON does.
LIKELY = {
    "/api/users": st.fixed_dictionaries({"name": st.text()}, optional={"x": JSON_VALUES}),
    "/api/posts": st.fixed_dictionaries(
        {"content": st.text()}, optional={"media": st.lists(MEDIA, max_size=12), "replyTo": IDS | st.none()}
    ),
    "/api/posts/1": st.fixed_dictionaries({}, optional={"content": st.text(), "media": st.lists(MEDIA, max_size=12)}),
    "/api/following": st.fixed_dictionaries({"userIds": st.lists(IDS)}),
    "/api/posts/1/feedback": st.fixed_dictionaries({"kind": st.sampled_from(["hide", "less_like_this"]) | st.text()}),
    "/api/feed/impressions": st.fixed_dictionaries({"impressions": st.lists(IMPRESSION, max_size=3)}),
    "/api/feed/view": st.fixed_dictionaries({"view": st.sampled_from(["latest", "ranked"]) | st.text()}),
}


@pytest.mark.parametrize(("method", "path"), WRITES)
@given(body=st.binary())
async def test_arbitrary_bytes_as_a_body(method: str, path: str, body: bytes) -> None:
    status, _ = await call(method, path, body=body)
    assert status < 500


@pytest.mark.parametrize(("method", "path"), WRITES)
@given(value=JSON_VALUES)
async def test_arbitrary_json_as_a_body(method: str, path: str, value: Any) -> None:
    status, _ = await call(method, path, body=json.dumps(value).encode())
    assert status < 500


@pytest.mark.parametrize(("method", "path"), WRITES)
@given(data=st.data())
async def test_json_of_nearly_the_right_shape(method: str, path: str, data: st.DataObject) -> None:
    status, _ = await call(method, path, body=json.dumps(data.draw(LIKELY[path])).encode())
    assert status < 500


@pytest.mark.parametrize(("method", "path"), WRITES)
@given(data=st.data())
async def test_json_with_parts_of_it_damaged(method: str, path: str, data: st.DataObject) -> None:
    text = bytearray(json.dumps(data.draw(LIKELY[path]), ensure_ascii=False).encode(errors="surrogatepass"))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        text[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    status, _ = await call(method, path, body=bytes(text))
    assert status < 500


@pytest.mark.parametrize("path", READS)
@given(query=st.binary())
async def test_an_arbitrary_query(path: str, query: bytes) -> None:
    status, _ = await call("GET", path, query=query)
    assert status < 500


@pytest.mark.parametrize("path", READS)
@given(
    name=st.sampled_from([b"limit", b"cursor", b"cursor=r:", b"ids", b"view", b"explain"]),
    value=st.text(st.characters(codec="latin-1")).map(lambda text: text.encode("latin-1")),
)
async def test_arbitrary_values_of_known_parameters(path: str, name: bytes, value: bytes) -> None:
    status, _ = await call("GET", path, query=name + (b"" if b"=" in name else b"=") + value)
    assert status < 500


@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "DELETE", "POST", "PATCH", "OPTIONS"]),
    template=st.sampled_from(
        [
            "/api/users/{}",
            "/api/posts/{}",
            "/api/following/{}",
            "/api/blocks/{}",
            "/api/mutes/{}",
            "/api/favourites/{}",
            "/api/feed/{}",
            "/api/posts/{}/like",
            "/api/posts/{}/repost",
            "/api/posts/{}/feedback",
            "/api/users/{}/posts",
            "/{}",
        ]
    ),
    part=st.text(st.characters(exclude_categories=["Cs"])) | st.integers().map(str),
)
async def test_an_arbitrary_path(method: str, template: str, part: str) -> None:
    status, _ = await call(method, template.format(part))
    assert status < 500


@pytest.mark.parametrize(
    "name", [b"x-user-id", b"idempotency-key", b"content-type", b"content-encoding", b"traceparent", b"tracestate"]
)
@given(value=st.binary())
async def test_arbitrary_values_of_headers(name: bytes, value: bytes) -> None:
    status, _ = await call("POST", "/api/posts", headers=[*IDENTITY, (name, value)], body=b'{"content": "hi"}')
    assert status < 500


@pytest.mark.parametrize("path", ["/nowhere", "/api", "/api/feed/", "/api/users//posts", "/api/posts/1/2", "//"])
async def test_an_unknown_path_is_a_problem(path: str) -> None:
    status, document = await call("GET", path)
    assert (status, document["reason"]) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_a_method_that_is_not_there_is_a_problem(method: str) -> None:
    status, document = await call(method, "/api/feed")
    assert (status, document["reason"]) == (405, "METHOD_NOT_ALLOWED")
    assert "GET, HEAD" in document["detail"]


@pytest.mark.parametrize("path", READS)
async def test_head_is_answered_where_get_is(path: str) -> None:
    status, _ = await call("HEAD", path, query=b"ids=1")
    assert status == 200


@pytest.mark.parametrize(
    ("user_id", "accepted"),
    [("1", True), (1, True), (2**63 - 1, True), (2**63, False), (0, False), ("01", False), (1.0, False), (True, False)],
)
async def test_ids_in_a_body_are_strings_or_exact_numbers(user_id: object, accepted: bool) -> None:
    status, document = await call("POST", "/api/following", body=json.dumps({"userIds": ["5", user_id]}).encode())
    assert status == (200 if accepted else 400)
    assert accepted or document["errors"][0]["field"] == "userIds[1]"


@pytest.mark.parametrize("count", [0, 1001])
async def test_too_few_and_too_many_ids_in_a_body_are_named(count: int) -> None:
    status, document = await call("POST", "/api/following", body=json.dumps({"userIds": ["1"] * count}).encode())
    assert (status, document["errors"][0]["field"]) == (400, "userIds")


@pytest.mark.parametrize("body", [b'{"content": "\\u0000"}', json.dumps({"content": "x" * 5001}).encode()])
async def test_what_the_contract_refuses_is_refused_before_anything_is_called(body: bytes) -> None:
    status, document = await call("POST", "/api/posts", body=body)
    assert (status, document["errors"][0]["field"]) == (400, "content")


@pytest.mark.parametrize(
    ("body", "field", "rule"),
    [
        ("{}", "body", "must have content, media or both"),
        ('{"altText": "x"}', "body", "must have content, media or both"),
        ('{"content": null}', "content", "expected str, got null"),
        ('{"media": null}', "media", "expected array, got null"),
        ('{"content": "x", "media": null}', "media", "expected array, got null"),
        ('{"media": [null]}', "media[0]", "expected object, got null"),
        ('{"media": [{"url": "https://x.example/a"}]}', "media[0].type", "is required"),
        ("[]", "body", "expected object, got array"),
        ("null", "body", "expected object, got null"),
    ],
)
async def test_an_edit_that_names_nothing_or_nothing_possible_says_so(body: str, field: str, rule: str) -> None:
    status, document = await call("PATCH", "/api/posts/1", body=body.encode())
    assert (status, document["reason"]) == (400, "MALFORMED_BODY")
    assert document["errors"] == [{"field": field, "rule": rule}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": "\0"}, "content"),
        ({"content": "x" * 5001}, "content"),
        ({"media": [{"url": "https://x.example/a", "type": "image"}] * 11}, "media"),
        ({"media": [{"url": "javascript:alert(1)", "type": "image"}]}, "media[0].url"),
    ],
)
async def test_an_edit_is_held_to_the_contract_before_anything_is_called(body: Any, field: str) -> None:
    status, document = await call("PATCH", "/api/posts/1", body=json.dumps(body).encode())
    assert (status, [error["field"] for error in document["errors"]]) == (400, [field])


@pytest.mark.parametrize(
    "path", ["/api/blocks/{}", "/api/mutes/{}", "/api/favourites/{}", "/api/posts/{}/like", "/api/posts/{}/repost"]
)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("part", ["0", "-1", "1.0", "x", "9223372036854775808", "\0", "٣"])
async def test_whatever_is_acted_upon_must_have_an_id(path: str, method: str, part: str) -> None:
    status, document = await call(method, path.format(part))
    assert (status, document["reason"], document["errors"][0]["field"]) == (400, "INVALID_FIELD", "id")


async def test_a_rule_about_media_names_the_member_as_the_public_knows_it() -> None:
    body = {"content": "", "media": [{"url": "https://x.example/a", "type": "image", "altText": "\0"}]}
    _, document = await call("POST", "/api/posts", body=json.dumps(body).encode())
    assert [error["field"] for error in document["errors"]] == ["media[0].altText"]


async def test_an_idempotency_key_that_cannot_be_one_is_named() -> None:
    headers = [*IDENTITY, (b"idempotency-key", b"\xe9")]
    _, document = await call("POST", "/api/posts", headers=headers, body=b'{"content": "hi"}')
    assert [error["field"] for error in document["errors"]] == ["Idempotency-Key"]


# --- the ranked feed, and what it learns from -------------------------------------------------------------------------

IMPRESSIONS = [{"postId": str(place), "position": place, "dwellMs": 0, "view": "latest"} for place in range(1, 101)]


@pytest.mark.parametrize(
    ("query", "field", "reason"),
    [
        (b"view=best", "view", "INVALID_FIELD"),
        (b"view=latest&view=ranked", "view", "INVALID_FIELD"),
        (b"explain=yes", "explain", "INVALID_FIELD"),
        (b"explain=1", "explain", "INVALID_FIELD"),
        (b"cursor=r:" + b"x" * 10_000, "cursor", "INVALID_PAGE_TOKEN"),
        (b"cursor=r", "cursor", "INVALID_PAGE_TOKEN"),
        (b"view=ranked&limit=0", "limit", "INVALID_FIELD"),
    ],
)
async def test_a_parameter_of_the_feed_that_cannot_be_is_named(query: bytes, field: str, reason: str) -> None:
    status, document = await call("GET", "/api/feed", query=query)
    assert (status, document["reason"], document["errors"][0]["field"]) == (400, reason, field)


@pytest.mark.parametrize(
    ("member", "value", "rule"),
    [
        ("postId", "0", "must be an id"),
        ("postId", "1.5", "must be an id"),
        ("postId", -1, "must be an id"),
        ("postId", 2**63, "must be an id"),
        ("postId", None, "expected int | str, got null"),
        ("position", -1, "must be greater than or equal to 0"),
        ("position", 100_001, "must be greater than or equal to 0 and less than or equal to 100000"),
        ("position", 2**31, "expected int"),
        ("position", "1", "expected int, got str"),
        ("dwellMs", -1, "must be greater than or equal to 0"),
        ("dwellMs", 3_600_001, "less than or equal to 3600000"),
        ("dwellMs", 0.5, "expected int, got float"),
        ("view", "best", "must be latest or ranked"),
        ("view", 1, "expected str, got int"),
    ],
)
async def test_an_impression_that_cannot_be_is_named_with_its_place(member: str, value: object, rule: str) -> None:
    body = {"impressions": [*IMPRESSIONS[:3], {**IMPRESSIONS[3], member: value}, *IMPRESSIONS[4:]]}
    status, document = await call("POST", "/api/feed/impressions", body=json.dumps(body).encode())
    (error,) = document["errors"]
    assert (status, error["field"]) == (400, f"impressions[3].{member}")
    assert rule in error["rule"]


@pytest.mark.parametrize("member", ["postId", "position", "dwellMs", "view"])
async def test_an_impression_lacks_nothing(member: str) -> None:
    impression = {name: value for name, value in IMPRESSIONS[0].items() if name != member}
    body = json.dumps({"impressions": [impression]}).encode()
    _, document = await call("POST", "/api/feed/impressions", body=body)
    assert document["errors"] == [{"field": f"impressions[0].{member}", "rule": "is required"}]


@pytest.mark.parametrize("number", [0, 101, 10_000])
async def test_too_few_and_too_many_impressions_are_refused(number: int) -> None:
    body = json.dumps({"impressions": (IMPRESSIONS * 100)[:number]}).encode()
    status, document = await call("POST", "/api/feed/impressions", body=body)
    assert (status, document["errors"][0]["field"]) == (400, "impressions")


async def test_a_hundred_impressions_are_accepted() -> None:
    body = json.dumps({"impressions": IMPRESSIONS}).encode()
    assert await call("POST", "/api/feed/impressions", body=body) == (202, {"recorded": 0})


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "rule"),
    [
        ("POST", "/api/posts/1/feedback", {}, "kind", "is required"),
        ("POST", "/api/posts/1/feedback", {"kind": "HIDE"}, "kind", "must be less_like_this or hide"),
        ("POST", "/api/posts/1/feedback", {"kind": None}, "kind", "expected str, got null"),
        ("PUT", "/api/feed/view", {}, "view", "is required"),
        ("PUT", "/api/feed/view", {"view": "best"}, "view", "must be latest or ranked"),
        ("PUT", "/api/feed/view", ["ranked"], "body", "expected object, got array"),
        ("POST", "/api/posts", {"content": "", "replyTo": "x"}, "replyTo", "must be an id"),
        ("POST", "/api/posts", {"content": "", "replyTo": 0}, "replyTo", "must be an id"),
        ("POST", "/api/posts", {"content": "", "replyTo": [1]}, "replyTo", "expected int | str | null, got array"),
    ],
)
async def test_a_choice_that_there_is_not_is_named(
    *, method: str, path: str, body: object, field: str, rule: str
) -> None:
    status, document = await call(method, path, body=json.dumps(body).encode())
    (error,) = document["errors"]
    assert (status, document["reason"], error["field"]) == (400, "MALFORMED_BODY", field)
    assert error["rule"].startswith(rule)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/feed/view"),
        ("PUT", "/api/feed/view"),
        ("POST", "/api/feed/impressions"),
        ("PUT", "/api/posts/1/like"),
        ("DELETE", "/api/posts/1/repost"),
        ("POST", "/api/posts/1/feedback"),
        ("GET", "/api/favourites"),
        ("PUT", "/api/favourites/1"),
        ("DELETE", "/api/favourites/1"),
    ],
)
async def test_nobody_in_particular_does_and_sees_nothing_of_it(method: str, path: str) -> None:
    status, document = await call(method, path, headers=[])
    assert (status, document["reason"], document["errors"][0]["field"]) == (401, "UNAUTHENTICATED", "X-User-Id")
