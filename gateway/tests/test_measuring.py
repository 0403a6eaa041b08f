"""Requests are told by route and status where metrics are wanted."""

from collections.abc import Iterator
from typing import Any

import pytest
from gateway.measuring import measured
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

Attributes = dict[str, object]


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """What is measured by whatever is made during the test."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    yield reader
    provider.shutdown()


def told(meters: InMemoryMetricReader) -> list[Attributes]:
    """The attributes of all requests."""
    found = meters.get_metrics_data()
    assert found
    [metric] = [metric for one in found.resource_metrics for scope in one.scope_metrics for metric in scope.metrics]
    assert (metric.name, metric.unit) == ("http.server.request.duration", "s")
    points: Any = metric.data.data_points
    return [dict(point.attributes) for point in points for _ in range(point.count)]


async def request(method: str = "GET", *, route: str = "", status: int = 200, fails: bool = False) -> None:
    """One request to an application that is measured."""

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        if fails:
            raise ZeroDivisionError
        if route:
            scope["route"] = Route(route, app)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Message:
        raise AssertionError

    async def send(_message: Message) -> None:
        """Nobody listens."""

    await measured(app)({"type": "http", "method": method, "path": "/api/users/7"}, receive, send)


async def test_requests_are_told_by_their_template_and_not_by_their_path(meters: InMemoryMetricReader) -> None:
    for _ in range(2):
        await request(route="/api/users/{id}")
    expected = {
        "http.request.method": "GET",
        "http.route": "/api/users/{id}",
        "http.response.status_code": 200,
    }
    assert told(meters) == [expected, expected]


async def test_what_a_client_makes_up_is_not_kept(meters: InMemoryMetricReader) -> None:
    for number in range(3):
        await request(f"BREW{number}", status=404)
    assert told(meters) == [{"http.request.method": "_OTHER", "http.response.status_code": 404}] * 3


async def test_a_request_without_an_answer_is_told_without_a_status(meters: InMemoryMetricReader) -> None:
    with pytest.raises(ZeroDivisionError):
        await request(fails=True)
    assert told(meters) == [{"http.request.method": "GET"}]


def test_without_metrics_there_is_no_layer() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError

    assert measured(app) is app
