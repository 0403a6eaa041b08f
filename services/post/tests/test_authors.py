"""Who may write is asked for once in a while, and not forgotten at once while graph is away."""

import pytest
from feedkit.errors import FailedPrecondition, NotFound, PermissionDenied, Unavailable
from post_service.authors import Authors, Standing

SECONDS = 10.0


class Graph:
    """How accounts stand, for a test: a fact, not a service. With a clock."""

    def __init__(self, *active: int) -> None:
        self.accounts: dict[int, Standing | None] = dict.fromkeys(active, Standing.ACTIVE)
        self.away = False
        self.asked: list[int] = []
        self.now = 1000.0
        self.takes = 0.0

    async def standing(self, user_id: int) -> Standing | None:
        self.asked.append(user_id)
        if self.away:
            raise Unavailable.of_dependency("graph")
        standing = self.accounts.get(user_id)
        self.now += self.takes
        return standing

    def clock(self) -> float:
        return self.now


def authors_of(graph: Graph, remember: int = 10) -> Authors:
    return Authors(graph.standing, remember=remember, seconds=SECONDS, clock=graph.clock)


@pytest.mark.parametrize("field", ["author_id", "actor_id"])
async def test_an_unknown_author_is_named_with_the_field(field: str) -> None:
    with pytest.raises(NotFound) as refusal:
        await authors_of(Graph()).require(7, field)
    assert (refusal.value.reason, refusal.value.metadata) == ("USER_NOT_FOUND", {"user_id": "7", "field": field})


async def test_a_suspended_author_is_refused() -> None:
    graph = Graph()
    graph.accounts[7] = Standing.SUSPENDED
    with pytest.raises(PermissionDenied) as refusal:
        await authors_of(graph).require(7, "author_id")
    assert refusal.value.reason == "ACCOUNT_SUSPENDED"


async def test_a_suspended_account_is_there_but_is_not_taken_for_one_that_may_write() -> None:
    graph = Graph()
    graph.accounts[7] = Standing.SUSPENDED
    authors = authors_of(graph)
    await authors.require_account(7, "actor_id")
    with pytest.raises(PermissionDenied):
        await authors.require(7, "actor_id")


async def test_an_account_that_is_gone_is_named_with_the_field() -> None:
    with pytest.raises(NotFound) as refusal:
        await authors_of(Graph()).require_account(7, "viewer_id")
    assert refusal.value.metadata == {"user_id": "7", "field": "viewer_id"}


async def test_an_active_account_is_known_as_an_author_too() -> None:
    graph = Graph(7)
    authors = authors_of(graph)
    await authors.require_account(7, "viewer_id")
    await authors.require(7, "author_id")
    assert graph.asked == [7]


async def test_a_known_author_is_asked_for_once_within_the_time() -> None:
    graph = Graph(7)
    authors = authors_of(graph)
    await authors.require(7, "author_id")
    graph.now += SECONDS - 0.1
    await authors.require(7, "author_id")
    assert graph.asked == [7]


async def test_being_asked_for_makes_nobody_known_for_longer() -> None:
    graph = Graph(7)
    authors = authors_of(graph)
    for _ in range(3):
        await authors.require(7, "author_id")
        graph.now += SECONDS / 2
    assert graph.asked == [7, 7]


async def test_the_time_begins_with_the_question() -> None:
    graph = Graph(7)
    graph.takes = SECONDS / 2
    authors = authors_of(graph)
    await authors.require(7, "author_id")
    graph.now += SECONDS / 2
    await authors.require(7, "author_id")
    assert graph.asked == [7, 7]


@pytest.mark.parametrize("standing", [Standing.SUSPENDED, None])
async def test_who_was_suspended_or_deleted_writes_no_more_when_the_time_is_over(standing: Standing | None) -> None:
    graph = Graph(7)
    authors = authors_of(graph)
    await authors.require(7, "author_id")
    graph.accounts[7] = standing
    graph.now += SECONDS
    with pytest.raises((PermissionDenied, NotFound)):
        await authors.require(7, "author_id")


@pytest.mark.parametrize("standing", [Standing.SUSPENDED, None])
async def test_a_refusal_is_not_remembered(standing: Standing | None) -> None:
    graph = Graph()
    graph.accounts[7] = standing
    authors = authors_of(graph)
    with pytest.raises((PermissionDenied, NotFound)):
        await authors.require(7, "author_id")
    graph.accounts[7] = Standing.ACTIVE
    await authors.require(7, "author_id")


async def test_a_known_author_needs_no_graph_within_the_time() -> None:
    graph = Graph(7)
    authors = authors_of(graph)
    await authors.require(7, "author_id")
    graph.away = True
    await authors.require(7, "author_id")
    graph.now += SECONDS
    with pytest.raises(Unavailable):
        await authors.require(7, "author_id")


async def test_while_graph_is_away_an_author_nobody_asked_for_is_neither_there_nor_not() -> None:
    graph = Graph(7)
    graph.away = True
    with pytest.raises(Unavailable):
        await authors_of(graph).require(7, "author_id")


async def test_those_asked_for_longest_ago_are_forgotten_first() -> None:
    graph = Graph(1, 2, 3)
    authors = authors_of(graph, remember=2)
    for author_id in (1, 2, 3):
        await authors.require(author_id, "author_id")
    graph.asked.clear()
    for author_id in (2, 3, 1):
        await authors.require(author_id, "author_id")
    assert graph.asked == [1]


@pytest.mark.parametrize("standing", Standing)
async def test_whoever_is_known_to_graph_has_not_been_deleted(standing: Standing) -> None:
    graph = Graph()
    graph.accounts[7] = standing
    with pytest.raises(FailedPrecondition) as refusal:
        await authors_of(graph).require_deleted(7)
    assert (refusal.value.reason, refusal.value.metadata) == ("USER_NOT_DELETED", {"user_id": "7"})


async def test_that_somebody_is_gone_is_not_taken_from_memory() -> None:
    graph = Graph(7)
    authors = authors_of(graph)
    await authors.require(7, "author_id")
    del graph.accounts[7]
    await authors.require_deleted(7)
