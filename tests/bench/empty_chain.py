"""Empty chains: the hops of a read and nothing in them, as the ceiling of what the real read can reach.

Plain grpc.aio servers on uvloop with canned answers of the real size, behind a bare ASGI application. The calls are those
of a real read. Both begin with gateway → timeline → hydrate, and that is all of a `warm` read; a `pulled` one, where
timeline has nothing in Redis but whom the viewer follows, asks post in between.

    python -m tests.bench.empty_chain CHAIN ROLE PORT [ROLE=PORT ...]
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, cast

import grpc.aio
import uvicorn
import uvloop
from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2
from feed.timeline.v1 import timeline_pb2
from google.protobuf.message import Message

from tests.bench.canned import AUTHORS, FEED_JSON, FIRST_ID, FOLLOWEES, PAGE, hydrated_post


class Call(NamedTuple):
    """A call of the chain with its request and its answer."""

    role: str
    """Who answers it."""
    method: str
    request: Message
    answer: Message


PAGE_IDS = [FIRST_ID - number for number in range(PAGE)]

LIST_RECENT = Call(
    "post",
    "/feed.post.v1.PostService/ListRecentByAuthors",
    post_pb2.ListRecentByAuthorsRequest(author_ids=range(1, FOLLOWEES + 2), limit=PAGE + 1),
    post_pb2.ListRecentByAuthorsResponse(
        post_ids=[*PAGE_IDS, FIRST_ID - PAGE], author_ids=[number % AUTHORS + 1 for number in range(PAGE + 1)]
    ),
)
HYDRATE = Call(
    "hydrate",
    "/feed.hydrate.v1.HydrateService/HydratePosts",
    hydrate_pb2.HydratePostsRequest(viewer_id=1, post_ids=PAGE_IDS),
    hydrate_pb2.HydratePostsResponse(
        hydrations=[
            hydrate_pb2.Hydration(post_id=FIRST_ID - number, post=hydrated_post(number)) for number in range(PAGE)
        ]
    ),
)
GET_HOME_TIMELINE = Call(
    "timeline",
    "/feed.timeline.v1.TimelineService/GetHomeTimeline",
    timeline_pb2.GetHomeTimelineRequest(viewer_id=1),
    timeline_pb2.GetHomeTimelineResponse(posts=map(hydrated_post, range(PAGE))),
)

CALLS = (LIST_RECENT, HYDRATE, GET_HOME_TIMELINE)
Chain = Mapping[str, tuple[Call, ...]]
"""The calls that each role makes for every one that it answers."""
CHAINS: Mapping[str, Chain] = {
    "warm": {"hydrate": (), "timeline": (HYDRATE,), "gateway": (GET_HOME_TIMELINE,)},
    "pulled": {"post": (), "hydrate": (), "timeline": (LIST_RECENT, HYDRATE), "gateway": (GET_HOME_TIMELINE,)},
}

Behaviour = Callable[[Any, Any], Awaitable[Message]]


async def main(chain: str, role: str, port: int, ports: Mapping[str, str]) -> None:
    """Play one role of a chain until the process is ended."""
    calls = [caller(call, ports[call.role]) for call in CHAINS[chain][role]]
    await (serve_http(port, calls) if role == "gateway" else serve_grpc(role, port, calls))


def caller(call: Call, port: str) -> Callable[[], Awaitable[Any]]:
    """A plain client of one call."""
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    method = cast(
        "Any", channel.unary_unary(call.method, type(call.request).SerializeToString, type(call.answer).FromString)
    )
    return lambda: method(call.request, timeout=5)


async def serve_grpc(role: str, port: int, calls: list[Callable[[], Awaitable[Any]]]) -> None:
    """Answer every method of a role with its canned answer, after having made the role's own calls."""

    def behaviour_of(answer: Message) -> Behaviour:
        async def behaviour(request: Any, context: Any) -> Message:
            for call in calls:
                await call()
            return answer

        return behaviour

    server = grpc.aio.server()
    for call in CALLS:
        if call.role == role:
            _, service, name = call.method.split("/")
            handler = grpc.unary_unary_rpc_method_handler(
                cast("Any", behaviour_of(call.answer)),
                type(call.request).FromString,
                type(call.answer).SerializeToString,
            )
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def serve_http(port: int, calls: list[Callable[[], Awaitable[Any]]]) -> None:
    """Answer every request with a canned feed, after having called the timeline."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(FEED_JSON)).encode())]

    async def application(scope: Any, receive: Any, send: Any) -> None:
        for call in calls:
            await call()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": FEED_JSON})

    config = uvicorn.Config(application, port=port, lifespan="off", log_level="error", loop="uvloop", access_log=False)
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), dict(pair.split("=") for pair in sys.argv[4:])))
