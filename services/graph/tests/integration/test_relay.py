"""Who follows whom reaches Kafka by the role `relay`, and the service tells how much has not yet."""

import asyncio
import time
from collections.abc import Generator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.events.v1 import events_pb2
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.outbox.v1 import outbox_pb2, outbox_pb2_grpc
from feedkit import channel, kafka, outbox

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """This service with its relay."""
    needed = [process for process in PROCESSES if process.name in ("graph", "graph-relay")]
    with Mesh({"FEED_DRAIN_SECONDS": "0"}, directory=tmp_path_factory.mktemp("mesh"), processes=needed) as mesh:
        yield mesh


def first_record(broker: str) -> Any:
    """The first event of a follow; fails where none comes for 20 s."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "test"})
    try:
        partitions = consumer.list_topics(kafka.GRAPH_EVENTS, 5).topics[kafka.GRAPH_EVENTS].partitions
        consumer.assign([TopicPartition(kafka.GRAPH_EVENTS, number, OFFSET_BEGINNING) for number in partitions])
        [record] = consumer.consume(1, 20)
        return record
    finally:
        consumer.close()


async def until_rows_are(expected: int, mesh: Mesh) -> None:
    """Wait until so many events wait in the outbox, as the service tells."""
    deadline = time.monotonic() + 20
    async with channel.connect(mesh.addresses.grpc["graph"], outbox.SERVICE, "graph") as opened:
        stub: outbox_pb2_grpc.OutboxServiceAsyncStub = outbox_pb2_grpc.OutboxServiceStub(opened)
        while (answer := await stub.GetBacklog(outbox_pb2.GetBacklogRequest())).rows != expected:
            assert time.monotonic() < deadline, answer
            await asyncio.sleep(0.02)


async def test_a_follow_is_told_of_in_kafka(mesh: Mesh) -> None:
    mesh.terminate("graph-relay")
    service = graph_pb2.DESCRIPTOR.services_by_name["GraphService"]
    async with channel.connect(mesh.addresses.grpc["graph"], service, "graph") as opened:
        graph: graph_pb2_grpc.GraphServiceAsyncStub = graph_pb2_grpc.GraphServiceStub(opened)
        [a, b] = [(await graph.CreateUser(graph_pb2.CreateUserRequest(name=name))).user.id for name in ("a", "b")]
        await graph.Follow(graph_pb2.FollowRequest(actor_id=a, followee_id=b))
    await until_rows_are(1, mesh)
    mesh.restart("graph-relay")
    record = await asyncio.to_thread(first_record, mesh.addresses.kafka)
    assert record.key() == str(a).encode()
    assert events_pb2.GraphEvent.FromString(record.value()) == events_pb2.GraphEvent(
        follower_id=a, followee_id=b, kind=events_pb2.GRAPH_EVENT_KIND_FOLLOWED
    )
    await until_rows_are(0, mesh)
