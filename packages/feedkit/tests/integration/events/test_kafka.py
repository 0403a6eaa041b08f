"""A record that was sent has been acknowledged; one that was not is told of in time, whatever the broker does."""

import asyncio
import ctypes
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from devmesh.backends import kafka as mock
from devmesh.backends.kafka import TOPICS, MockCluster
from feed.events.v1 import events_pb2
from feedkit import kafka, telemetry
from feedkit.config import ConfigurationError
from feedkit.errors import Unavailable
from feedkit.kafka import KafkaSettings, Producer, RecordRefused
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from pydantic import ValidationError

pytestmark = pytest.mark.integration

OpenProducer = Callable[..., Awaitable[Producer]]
Received = Callable[[str, int], Awaitable[list[Any]]]
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
FOLLOWED = events_pb2.GraphEvent(follower_id=1, followee_id=2, kind=events_pb2.GRAPH_EVENT_KIND_FOLLOWED)


def wish(number: int) -> events_pb2.ReconcileWish:
    return events_pb2.ReconcileWish(viewer_id=1, author_id=number)


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_message_is_there_when_its_sending_returns(open_producer: OpenProducer, received: Received) -> None:
    producer = await open_producer()
    await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    [record] = await received(kafka.GRAPH_EVENTS, 1)
    assert record.key == "17"
    assert record.value == FOLLOWED.SerializeToString()
    assert record.headers == {"type": "feed.events.v1.GraphEvent", "schema-version": "1"}


async def test_many_messages_arrive_once_and_those_of_a_key_in_order(
    open_producer: OpenProducer, received: Received
) -> None:
    producer = await open_producer()
    await producer.send_many(kafka.RECONCILE, [(number % 50, wish(number)) for number in range(3000)])
    arrived: dict[str, list[int]] = defaultdict(list)
    for record in await received(kafka.RECONCILE, 3000):
        arrived[record.key].append(events_pb2.ReconcileWish.FromString(record.value).author_id)
    assert arrived == {str(key): list(range(key, 3000, 50)) for key in range(50)}


async def test_nothing_to_send_is_sent_at_once(open_producer: OpenProducer) -> None:
    producer = await open_producer()
    async with asyncio.timeout(1):
        await producer.send_many(kafka.RECONCILE, [])


async def test_a_record_is_sent_as_it_is(open_producer: OpenProducer, received: Received) -> None:
    producer = await open_producer()
    await producer.send_record(kafka.DEAD_LETTERS, "key", b"\xff", {"reason": "undecodable"})
    [record] = await received(kafka.DEAD_LETTERS, 1)
    assert record == ("key", b"\xff", {"reason": "undecodable"})


async def test_a_record_that_is_too_large_is_refused_alone(open_producer: OpenProducer, received: Received) -> None:
    producer = await open_producer()
    records = [kafka.Record(kafka.DEAD_LETTERS, "key", value, {}) for value in (b"1", bytes(2_000_000), b"2")]
    [first, refusal, last] = await producer.send_records(records)
    assert first is last is None
    assert isinstance(refusal, RecordRefused)
    assert [record.value for record in await received(kafka.DEAD_LETTERS, 2)] == [b"1", b"2"]
    with pytest.raises(RecordRefused):
        await producer.send_record(*records[1])


# --- traces -----------------------------------------------------------------------------------------------------------


async def traceparent_of_one(producer: Producer, received: Received) -> str | None:
    await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    [record] = await received(kafka.GRAPH_EVENTS, 1)
    return record.headers.get("traceparent")


def traceparent(span: ReadableSpan) -> str:
    assert span.context
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


async def test_a_record_carries_its_own_span(
    open_producer: OpenProducer, received: Received, spans: InMemorySpanExporter
) -> None:
    producer = await open_producer()
    with telemetry.server_span("request", telemetry.extract({}), {}):
        carried = await traceparent_of_one(producer, received)
    sent, request = spans.get_finished_spans()
    assert sent.parent and request.context
    assert (sent.parent.trace_id, sent.parent.span_id) == (request.context.trace_id, request.context.span_id)
    assert carried == traceparent(sent)
    assert (sent.name, sent.kind, sent.status.status_code) == (
        "send feed.graph.events.v1",
        SpanKind.PRODUCER,
        StatusCode.UNSET,
    )
    assert sent.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "feed.graph.events.v1",
        "messaging.kafka.message.key": "17",
    }


async def test_a_record_of_an_earlier_trace_goes_on_with_it(
    open_producer: OpenProducer, received: Received, spans: InMemorySpanExporter
) -> None:
    producer = await open_producer()
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=value"}
    await producer.send_record(kafka.POST_EVENTS, "1", b"", headers)
    [sent] = spans.get_finished_spans()
    assert sent.parent and f"{sent.parent.span_id:016x}" == PARENT
    [record] = await received(kafka.POST_EVENTS, 1)
    assert record.headers == {"traceparent": traceparent(sent), "tracestate": "vendor=value"}


@pytest.mark.parametrize("malformed", ["", "garbage", f"00-{'0' * 32}-{PARENT}-01", f"ff-{TRACE}-{PARENT}-01"])
async def test_a_malformed_trace_is_left_out(
    open_producer: OpenProducer, received: Received, spans: InMemorySpanExporter, malformed: str
) -> None:
    producer = await open_producer()
    await producer.send_record(kafka.POST_EVENTS, "1", b"", {"traceparent": malformed})
    [record] = await received(kafka.POST_EVENTS, 1)
    assert record.headers == {}
    assert not spans.get_finished_spans()


async def test_what_is_not_sampled_is_passed_on(
    open_producer: OpenProducer, received: Received, spans: InMemorySpanExporter
) -> None:
    producer = await open_producer()
    unsampled = f"00-{TRACE}-{PARENT}-00"
    with telemetry.server_span("request", telemetry.extract({"traceparent": unsampled}), {}):
        carried = await traceparent_of_one(producer, received)
    assert carried
    assert carried.startswith(f"00-{TRACE}-") and carried.endswith("-00")
    assert not spans.get_finished_spans()


async def test_what_was_not_sent_fails_its_span(
    open_producer: OpenProducer, broker: Any, spans: InMemorySpanExporter
) -> None:
    producer = await open_producer(kafka_delivery_seconds=0.5)
    broker.kill()
    with pytest.raises(Unavailable), telemetry.server_span("request", telemetry.extract({}), {}):
        await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    sent, _ = spans.get_finished_spans()
    assert sent.status.status_code is StatusCode.ERROR


# --- absences ---------------------------------------------------------------------------------------------------------


async def test_an_absent_broker_is_told_in_time_and_found_again(open_producer: OpenProducer, broker: Any) -> None:
    producer = await open_producer(kafka_delivery_seconds=1)
    await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    broker.kill()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"^kafka: cannot be reached$") as absent:
        await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    assert time.monotonic() - began < 3
    assert absent.value.metadata == {"dependency": "kafka"}
    assert "timed out" in str(absent.value.__cause__)
    await broker.restart()
    async with asyncio.timeout(10):
        while True:
            try:
                return await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
            except Unavailable:
                await asyncio.sleep(0.1)


async def test_an_absence_is_logged_once(
    open_producer: OpenProducer, broker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await open_producer(kafka_delivery_seconds=3)
    await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    broker.kill()
    with pytest.raises(Unavailable):
        await producer.send(kafka.GRAPH_EVENTS, 17, FOLLOWED)
    said = [record.getMessage() for record in caplog.records if record.name == "feedkit.kafka"]
    assert 1 <= len(said) <= 3
    assert any("brokers are down" in message for message in said)


async def test_a_patient_producer_waits_for_the_broker_and_keeps_the_order(
    open_producer: OpenProducer, broker: Any, received: Received
) -> None:
    producer = await open_producer(patient=True, kafka_delivery_seconds=0.1)
    await producer.send(kafka.RECONCILE, 1, wish(0))
    broker.kill()
    waiting: list[asyncio.Task[None]] = []
    for number in range(20):
        waiting.append(asyncio.create_task(producer.send(kafka.RECONCILE, 1, wish(number))))
        await asyncio.sleep(0.05)
    assert not any(task.done() for task in waiting)
    await broker.restart()
    await asyncio.gather(*waiting)
    arrived = [events_pb2.ReconcileWish.FromString(r.value).author_id for r in await received(kafka.RECONCILE, 20)]
    assert arrived == list(range(20))


async def test_what_waits_can_be_withdrawn(open_producer: OpenProducer, broker: Any, received: Received) -> None:
    producer = await open_producer(patient=True)
    broker.kill()
    waiting = asyncio.create_task(producer.send(kafka.RECONCILE, 1, wish(1)))
    await asyncio.sleep(0.1)
    producer.withdraw()
    with pytest.raises(Unavailable):
        await waiting
    await broker.restart()
    await producer.send(kafka.RECONCILE, 1, wish(2))
    [record] = await received(kafka.RECONCILE, 1)
    assert record.value == wish(2).SerializeToString()


async def test_a_full_queue_is_waited_for(
    open_producer: OpenProducer, received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_queue_short(monkeypatch)
    producer = await open_producer()
    await producer.send_many(kafka.RECONCILE, [(number, wish(number)) for number in range(200)])
    assert len(await received(kafka.RECONCILE, 200)) == 200


async def test_a_queue_that_stays_full_is_told(
    open_producer: OpenProducer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_queue_short(monkeypatch)
    waiting = asyncio.create_task(fill(await open_producer(patient=True)))
    producer = await open_producer(kafka_delivery_seconds=1)
    broker.kill()
    sendings = [asyncio.create_task(producer.send(kafka.RECONCILE, 1, wish(number))) for number in range(50)]
    async with asyncio.timeout(8):
        outcomes = await asyncio.gather(*sendings, return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    waiting.cancel()


def keep_queue_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients take no more than ten records at a time."""
    usual: Any = vars(kafka)["_configuration"]

    def configuration(settings: KafkaSettings, patient: bool) -> dict[str, Any]:
        return {**usual(settings, patient), "queue.buffering.max.messages": 10}

    monkeypatch.setattr(kafka, "_configuration", configuration)


async def fill(producer: Producer) -> None:
    await producer.send_many(kafka.RECONCILE, [(1, wish(number)) for number in range(50)])


async def test_a_cancelled_sending_disturbs_no_other(open_producer: OpenProducer, received: Received) -> None:
    producer = await open_producer()
    tasks = [asyncio.create_task(producer.send(kafka.RECONCILE, n, wish(n))) for n in range(300)]
    await asyncio.sleep(0.003)
    cancelled = set(random.Random(1).sample(tasks, 100))
    for task in cancelled:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [n for n, task in enumerate(tasks) if task not in cancelled and outcomes[n] is not None] == []
    arrived = {int(record.key) for record in await received(kafka.RECONCILE, 200)}
    assert arrived >= {n for n, task in enumerate(tasks) if task not in cancelled}


# --- readiness and the end --------------------------------------------------------------------------------------------


async def test_a_producer_is_ready_while_the_broker_answers(open_producer: OpenProducer, broker: Any) -> None:
    producer = await open_producer()
    await producer.check()
    broker.kill()
    with pytest.raises(Unavailable, match="kafka: cannot be reached"):
        await producer.check()


async def test_a_producer_at_its_end_waits_for_what_is_on_its_way(broker: Any, received: Received) -> None:
    async with kafka.producer(KafkaSettings(kafka_brokers=broker.address)) as producer:
        sending = asyncio.create_task(producer.send_many(kafka.RECONCILE, [(n, wish(n)) for n in range(1000)]))
        await asyncio.sleep(0)
    await sending
    assert len(await received(kafka.RECONCILE, 1000)) == 1000


@pytest.mark.parametrize("patient", [False, True])
async def test_an_absent_broker_does_not_hold_up_the_end(
    broker: Any, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    monkeypatch.setattr(kafka, "CLOSE_SECONDS", 0.3)
    broker.kill()
    async with kafka.producer(KafkaSettings(kafka_brokers=broker.address), patient=patient) as producer:
        sending = asyncio.create_task(producer.send(kafka.RECONCILE, 1, wish(1)))
        await asyncio.sleep(0.1)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    with pytest.raises(Unavailable):
        await sending


async def test_without_brokers_there_is_no_producer() -> None:
    with pytest.raises(ConfigurationError, match="FEED_KAFKA_BROKERS"):
        async with kafka.producer(KafkaSettings(kafka_brokers="")):
            pass


@pytest.mark.parametrize("brokers", ["kafka", "kafka:", "a:1,", "a:1, b:2", "http://kafka:9092/"])
def test_malformed_brokers_are_refused(brokers: str) -> None:
    with pytest.raises(ValidationError):
        KafkaSettings(kafka_brokers=brokers)


# --- a client that broke ----------------------------------------------------------------------------------------------


INIT_PRODUCER_ID, CLUSTER_AUTHORIZATION_FAILED = 22, 31


@pytest.fixture
def forbidding() -> str:
    """A broker, within this process, that forbids the first client to be a producer, which breaks that client for good."""
    cluster = MockCluster(TOPICS, advertised=0)
    library, handle = vars(mock)["_librdkafka"](), ctypes.c_void_p(vars(cluster)["_cluster"])
    library.rd_kafka_mock_broker_set_host_port(handle, 1, b"127.0.0.1", cluster.port)
    once = (ctypes.c_int16(INIT_PRODUCER_ID), ctypes.c_size_t(1), ctypes.c_int(CLUSTER_AUTHORIZATION_FAILED))
    library.rd_kafka_mock_push_request_errors(handle, *once)
    return f"127.0.0.1:{cluster.port}"


async def test_a_client_that_broke_is_replaced(
    open_producer: OpenProducer, forbidding: str, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await open_producer(kafka_brokers=forbidding)
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable):
            await producer.send(kafka.RECONCILE, 1, wish(1))
        await producer.send(kafka.RECONCILE, 1, wish(2))
    assert any(message.startswith("the Kafka client broke and is replaced") for message in caplog.messages)
