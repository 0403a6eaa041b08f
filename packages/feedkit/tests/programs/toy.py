"""A process with the life cycle that all have. It serves `HydratePosts`, and what else it does the environment says."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feedkit import channel, telemetry
from feedkit.server import GrpcServerSettings, Process, Role, main
from pydantic import Field

SERVICE = hydrate_pb2.DESCRIPTOR.services_by_name["HydrateService"]
logger = logging.getLogger("toy")


class ToySettings(GrpcServerSettings):
    """Settings of the toy."""

    toy_ready_file: Path | None = Field(default=None, description="It is ready while this file is there.")
    toy_open_seconds: float = Field(default=0, description="How long its resource takes to open.")
    toy_next_target: str = Field(default="", description="Whom to ask in its turn.")
    toy_crash: bool = Field(default=False, description="Whether to fail while starting.")


class TwinSettings(ToySettings):
    """Settings of a role beside the toy."""

    toy_twin_name: str = Field(description="What the toy itself need not know.")


class Servicer(hydrate_pb2_grpc.HydrateServiceServicer):
    """Sleeps as many milliseconds as the viewer's id says, and answers with the trace id that it saw."""

    def __init__(self, successor: channel.Channel | None) -> None:
        self._successor = successor
        self._calls = telemetry.counter("feed.toy.calls", unit="{call}", description="Calls, by viewer.")

    async def HydratePosts(
        self, request: hydrate_pb2.HydratePostsRequest, context: object
    ) -> hydrate_pb2.HydratePostsResponse:
        """One hydration for each process on the way, the nearest last."""
        logger.info("called")
        self._calls.add(1, {"viewer": request.viewer_id})
        if 13 in request.post_ids:
            raise ValueError("thirteen")
        answer = hydrate_pb2.HydratePostsResponse()
        if self._successor:
            answer = await hydrate_pb2_grpc.HydrateServiceStub(self._successor).HydratePosts(request)
        await asyncio.sleep(request.viewer_id / 1000)
        answer.hydrations.add(unavailable=hydrate_pb2.Unavailable(dependency=telemetry.trace_id()))
        return answer


@asynccontextmanager
async def resource(settings: ToySettings) -> AsyncGenerator[None]:
    """A resource that takes its time."""
    logger.info("opening")
    await asyncio.sleep(settings.toy_open_seconds)
    yield
    logger.info("closed")


async def run(process: Process, settings: ToySettings) -> None:
    """Serve."""
    await process.enter(resource(settings))
    if settings.toy_crash:
        raise RuntimeError("the toy is broken")
    successor = None
    if settings.toy_next_target:
        successor = await process.enter(channel.connect(settings.toy_next_target, SERVICE, "toy"))

    async def ready() -> None:
        if settings.toy_ready_file and not settings.toy_ready_file.exists():
            raise FileNotFoundError("the file is not there")

    await process.serve(
        settings,
        lambda server: hydrate_pb2_grpc.add_HydrateServiceServicer_to_server(Servicer(successor), server),
        [SERVICE.full_name],
        ready=[ready],
    )


async def greet(settings: ToySettings) -> None:
    """A further command."""
    logger.info("greetings")


if __name__ == "__main__":
    main("toy", ToySettings, run, {"greet": greet}, {"twin": Role(TwinSettings, run)})
