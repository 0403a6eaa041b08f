"""What `feedctl status` says of fan-out."""

import pytest
from feed.fanout.v1 import fanout_pb2
from feed.outbox.v1 import outbox_pb2
from feedctl.settled import to_do
from feedctl.status import doing, in_outbox, waiting
from google.protobuf.timestamp_pb2 import Timestamp


def test_what_waits_is_told_with_its_age() -> None:
    assert waiting(0, 0) == "none"
    assert waiting(3, 1520) == "3 events, the oldest for 1.5 s"


def test_what_kafka_refused_is_told_beside_what_waits() -> None:
    assert in_outbox(outbox_pb2.GetBacklogResponse(rows=3, oldest_age_ms=1520)) == waiting(3, 1520)
    assert in_outbox(outbox_pb2.GetBacklogResponse(set_aside=2)) == "none; 2 set aside (feedctl outbox list)"


def test_a_threshold_that_is_the_setting_is_told_with_its_age_and_its_leader() -> None:
    status = fanout_pb2.GetStatusResponse(
        celebrity_threshold=30,
        configured_celebrity_threshold=30,
        threshold_since=Timestamp(seconds=1_800_000_000),
        threshold_cause=fanout_pb2.THRESHOLD_CAUSE_CONFIGURED,
        threshold_leader="fanout-1",
    )
    assert doing(status).splitlines() == [
        "lag: none",
        "engagement: no events behind",
        "authors are pulled from 30 followers, as configured",
        "since 2027-01-15 08:00:00+00:00",
        "led by fanout-1",
    ]


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        (fanout_pb2.THRESHOLD_CAUSE_LAG, "because lag has passed its limit"),
        (fanout_pb2.THRESHOLD_CAUSE_RECOVERING, "on its way back because lag is gone"),
    ],
)
def test_another_threshold_is_told_with_the_setting_and_its_cause(
    cause: fanout_pb2.ThresholdCause.ValueType, why: str
) -> None:
    status = fanout_pb2.GetStatusResponse(
        lag_ms=12_000,
        lag_events=900,
        engagement_lag_events=7000,
        celebrity_threshold=1000,
        configured_celebrity_threshold=10_000,
        threshold_since=Timestamp(seconds=1_800_000_000),
        threshold_cause=cause,
    )
    assert doing(status).splitlines() == [
        "lag: 900 events, the oldest for 12.0 s",
        "engagement: 7000 events behind",
        f"authors are pulled from 1000 followers instead of 10000, {why}",
        "since 2027-01-15 08:00:00+00:00",
        "led by nobody",
    ]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fanout_pb2.GetSettledResponse(settled=True), ""),
        (fanout_pb2.GetSettledResponse(outbox_rows=3), "3 in outboxes"),
        (
            fanout_pb2.GetSettledResponse(lag_events=1, open_chunks=2, open_reconciles=4, unseen_pulled_ms=1500),
            "1 events not handled, 2 open chunks, 4 open reconciles, 1500 ms until pulled posts are known",
        ),
    ],
)
def test_what_there_is_to_do_is_told_without_what_is_done(answer: fanout_pb2.GetSettledResponse, words: str) -> None:
    assert to_do(answer) == words
