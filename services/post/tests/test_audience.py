"""For whom a post is there: for whoever is shown it, and nobody else learns why not."""

import pytest
from feedkit.errors import NotFound, Unavailable
from post_service.audience import Audience
from post_service.authors import Standing

POST, AUTHOR, OTHER = 5, 7, 8


class Graph:
    """Who blocks whom and how accounts stand, for a test: facts, not a service."""

    def __init__(self, *apart: tuple[int, int]) -> None:
        self.pairs = set(apart)
        self.gone: set[int] = set()
        self.away = False
        self.asked = 0
        self.author_is: Standing | None = Standing.ACTIVE

    async def standing(self, user_id: int) -> Standing | None:
        if self.away:
            raise Unavailable.of_dependency("graph")
        return self.author_is if user_id == AUTHOR else Standing.ACTIVE

    async def apart(self, user_id: int, other_id: int) -> bool | None:
        self.asked += 1
        if self.away:
            raise Unavailable.of_dependency("graph")
        return None if user_id in self.gone else (user_id, other_id) in self.pairs


def audience_of(graph: Graph) -> Audience:
    async def author_of(post_id: int) -> int | None:
        return AUTHOR if post_id == POST else None

    return Audience(author_of, graph.standing, graph.apart)


async def refusal(graph: Graph, user_id: int = OTHER, post_id: int = POST) -> NotFound:
    with pytest.raises(NotFound) as refusal:
        await audience_of(graph).require(user_id, "actor_id", post_id)
    return refusal.value


async def test_a_post_is_there_for_whoever_is_not_blocked() -> None:
    graph = Graph()
    await audience_of(graph).require(OTHER, "actor_id", POST)
    assert graph.asked == 1


async def test_after_a_block_it_is_refused_as_if_there_were_no_such_post() -> None:
    blocked, unknown = await refusal(Graph((OTHER, AUTHOR))), await refusal(Graph(), post_id=6)
    assert (blocked.reason, unknown.reason) == ("POST_NOT_FOUND", "POST_NOT_FOUND")
    assert blocked.message.replace("5", "6") == unknown.message


@pytest.mark.parametrize("standing", [Standing.SUSPENDED, None], ids=["suspended", "deleted"])
async def test_what_an_author_wrote_who_is_not_shown_is_refused_likewise(standing: Standing | None) -> None:
    graph = Graph()
    graph.author_is = standing
    assert (await refusal(graph)).reason == "POST_NOT_FOUND"


async def test_graph_is_not_asked_about_a_post_that_is_not_there() -> None:
    graph = Graph()
    await refusal(graph, post_id=6)
    assert graph.asked == 0


async def test_for_its_author_a_post_is_there_even_while_graph_is_away() -> None:
    graph = Graph()
    graph.away = True
    await audience_of(graph).require(AUTHOR, "actor_id", POST)


async def test_while_graph_is_away_a_post_is_neither_there_for_others_nor_not() -> None:
    graph = Graph()
    graph.away = True
    with pytest.raises(Unavailable):
        await audience_of(graph).require(OTHER, "actor_id", POST)


async def test_whoever_is_gone_is_named_with_the_field() -> None:
    graph = Graph()
    graph.gone.add(OTHER)
    error = await refusal(graph)
    assert (error.reason, error.metadata) == ("USER_NOT_FOUND", {"user_id": "8", "field": "actor_id"})
