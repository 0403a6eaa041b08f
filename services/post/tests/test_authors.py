"""Authors are asked for once, and not forgotten while graph is away."""

import pytest
from feedkit.errors import NotFound, Unavailable
from post_service.authors import Authors


class Graph:
    """Who exists, for a test: a fact, not a service."""

    def __init__(self, *users: int) -> None:
        self.users = set(users)
        self.away = False
        self.asked: list[int] = []

    async def exists(self, user_id: int) -> bool:
        self.asked.append(user_id)
        if self.away:
            raise Unavailable.of_dependency("graph")
        return user_id in self.users


async def test_an_unknown_author_is_named_with_the_field() -> None:
    with pytest.raises(NotFound) as refusal:
        await Authors(Graph().exists, 10).require(7)
    assert (refusal.value.reason, refusal.value.metadata) == (
        "USER_NOT_FOUND",
        {"user_id": "7", "field": "author_id"},
    )


async def test_a_known_author_is_asked_for_once() -> None:
    graph = Graph(7)
    authors = Authors(graph.exists, 10)
    await authors.require(7)
    await authors.require(7)
    assert graph.asked == [7]


async def test_a_known_author_needs_no_graph() -> None:
    graph = Graph(7)
    authors = Authors(graph.exists, 10)
    await authors.require(7)
    graph.away = True
    await authors.require(7)


async def test_while_graph_is_away_an_author_nobody_asked_for_is_neither_there_nor_not() -> None:
    graph = Graph(7)
    graph.away = True
    with pytest.raises(Unavailable):
        await Authors(graph.exists, 10).require(7)


async def test_one_who_was_unknown_may_come_to_be() -> None:
    graph = Graph()
    authors = Authors(graph.exists, 10)
    with pytest.raises(NotFound):
        await authors.require(7)
    graph.users.add(7)
    await authors.require(7)


async def test_those_longest_unused_are_forgotten_first() -> None:
    graph = Graph(1, 2, 3)
    authors = Authors(graph.exists, 2)
    for author_id in (1, 2, 1, 3):
        await authors.require(author_id)
    graph.asked.clear()
    for author_id in (1, 3, 2):
        await authors.require(author_id)
    assert graph.asked == [2]
