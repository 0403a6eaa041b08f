"""What is written reaches Kafka by the role `relay`, and the service tells how much has not yet."""

import asyncio
import time
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.events.v1 import events_pb2
from feed.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from feed.post.v1 import post_pb2
from feedkit import channel, kafka, outbox

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """This service with its relay, and graph, which it needs."""
    needed = [process for process in PROCESSES if process.name in ("post", "post-relay", "graph")]
    with Mesh({"FEED_DRAIN_SECONDS": "0"}, directory=tmp_path_factory.mktemp("mesh"), processes=needed) as mesh:
        yield mesh


def first_record(broker: str) -> Any:
    """The first event of a post; fails where none comes for 20 s."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test"})
    try:
        partitions = consumer.list_topics(kafka.POST_EVENTS, 5).topics[kafka.POST_EVENTS].partitions
        consumer.assign([TopicPartition(kafka.POST_EVENTS, number, OFFSET_BEGINNING) for number in partitions])
        [record] = consumer.consume(1, 20)
        return record
    finally:
        consumer.close()


async def until_rows_are(expected: int, mesh: Mesh) -> None:
    """Wait until so many events wait in the outbox, as the service tells."""
    deadline = time.monotonic() + 20
    async with channel.connect(mesh.addresses.grpc["post"], outbox.SERVICE, "post") as opened:
        stub: outbox_pb2_grpc.OutboxServiceAsyncStub = outbox_pb2_grpc.OutboxServiceStub(opened)
        while (answer := await stub.GetBacklog(outbox_pb2.GetBacklogRequest())).rows != expected:
            assert time.monotonic() < deadline, answer
            await asyncio.sleep(0.02)


async def test_a_post_is_told_of_in_kafka(mesh: Mesh, post: Any, author_id: int) -> None:
    mesh.terminate("post-relay")
    created = await post.CreatePost(post_pb2.CreatePostRequest(author_id=author_id, content="Hello"))
    await until_rows_are(1, mesh)
    mesh.restart("post-relay")
    record = await asyncio.to_thread(first_record, mesh.addresses.kafka)
    assert record.key() == str(author_id).encode()
    assert events_pb2.PostEvent.FromString(record.value()) == events_pb2.PostEvent(
        post_id=created.post.id, author_id=author_id, kind=events_pb2.POST_EVENT_KIND_CREATED
    )
    await until_rows_are(0, mesh)
