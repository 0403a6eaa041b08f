"""Random programmes of operations on the real mesh: after every step, what must show at once shows, and every walk equals
the oracle.

Pulled timelines are settled at any time, so walks are compared right after each step. Hypothesis shrinks a programme that
fails; the blob that it prints reproduces it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.oracle import Oracle, faults
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

pytestmark = pytest.mark.integration

PEOPLE = 5
PROCESSES = ("post", "graph", "hydrate", "timeline", "gateway")

# Something visible is always in it: what shows nothing is no post.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).map("a{}".format)

Result = TypeVar("Result")
NOTHING = cast("Any", multiple())


class Programme(RuleBasedStateMachine):
    """People who follow, unfollow, post and delete, while processes die and cursors are kept."""

    mesh: Mesh

    posts = Bundle("posts")
    cursors = Bundle("cursors")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.api = FeedApi(self.mesh.addresses.gateway, patient=True)
        self.people: list[int] = []
        # The test's own record of acknowledged writes; never read back from the product.
        self.follows: set[tuple[int, int]] = set()
        self.alive: dict[int, int] = {}

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run asynchronous work in the programme's own loop."""
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.api.http.aclose())
        self.runner.close()

    @initialize()
    def make_people(self) -> None:
        self.people = [self.run(self.api.create_user(f"Person {number}")) for number in range(PEOPLE)]

    def expected(self, viewer: int) -> list[int]:
        """The ledger's home timeline of a viewer, newest first."""
        return sorted(
            (post for post, author in self.alive.items() if author == viewer or (viewer, author) in self.follows),
            reverse=True,
        )

    @rule(target=posts, author=st.integers(0, PEOPLE - 1), content=TEXT)
    def post(self, author: int, content: str) -> Any:
        created = self.run(self.api.create_post(self.people[author], content))
        post_id = int(created["id"])
        self.alive[post_id] = self.people[author]
        newest = self.run(self.api.feed(self.people[author], limit="1"))["items"][0]
        assert int(newest["id"]) == post_id
        assert newest["content"] == content
        return post_id

    @rule(post=consumes(posts))
    def delete(self, post: int) -> None:
        author = self.alive.pop(post)
        self.run(self.api.delete_post(author, post))
        seen = self.run(self.api.feed(author, limit="50"))["items"]
        assert str(post) not in {item["id"] for item in seen}

    @rule(viewer=st.integers(0, PEOPLE - 1), followee=st.integers(0, PEOPLE - 1))
    def follow(self, viewer: int, followee: int) -> None:
        if viewer != followee:
            self.run(self.api.follow(self.people[viewer], self.people[followee]))
            self.follows.add((self.people[viewer], self.people[followee]))

    @rule(viewer=st.integers(0, PEOPLE - 1))
    def follow_everybody(self, viewer: int) -> None:
        others = [person for person in self.people if person != self.people[viewer]]
        self.run(self.api.follow_many(self.people[viewer], others))
        self.follows |= {(self.people[viewer], other) for other in others}

    @rule(viewer=st.integers(0, PEOPLE - 1), followee=st.integers(0, PEOPLE - 1))
    def unfollow(self, viewer: int, followee: int) -> None:
        if viewer != followee:
            self.run(self.api.unfollow(self.people[viewer], self.people[followee]))
            self.follows.discard((self.people[viewer], self.people[followee]))

    @rule(target=cursors, viewer=st.integers(0, PEOPLE - 1), limit=st.integers(1, 3))
    def keep_a_cursor(self, viewer: int, limit: int) -> Any:
        page = self.run(self.api.feed(self.people[viewer], limit=str(limit)))
        return (viewer, page["nextCursor"]) if "nextCursor" in page else NOTHING

    @rule(kept=cursors, limit=st.integers(1, 4))
    def go_on_from_a_kept_cursor(self, kept: tuple[int, str], limit: int) -> None:
        viewer, cursor = kept
        position = int(cursor.partition(":")[2])
        page = self.run(self.api.feed(self.people[viewer], limit=str(limit), cursor=cursor))
        older = [post for post in self.expected(self.people[viewer]) if post < position]
        assert [int(item["id"]) for item in page["items"]] == older[:limit]

    @rule(process=st.sampled_from(PROCESSES))
    def kill_and_restart(self, process: str) -> None:
        self.mesh.kill(process)
        self.mesh.restart(process)

    @rule(viewer=st.integers(0, PEOPLE - 1), limit=st.integers(1, 7))
    def walk(self, viewer: int, limit: int) -> None:
        person = self.people[viewer]
        walked = self.run(self.api.walk_feed(person, limit))
        assert faults(self.expected(person), walked) == []
        assert self.run(self._oracle(person)) == self.expected(person)

    @invariant()
    def every_newest_page_is_right(self) -> None:
        for person in self.people:
            page = self.run(self.api.feed(person, limit="50"))
            assert [int(item["id"]) for item in page["items"]] == self.expected(person)[:50]

    async def _oracle(self, viewer: int) -> list[int]:
        postgres = self.mesh.addresses.postgres
        async with Oracle(graph_dsn=postgres["graph"], post_dsn=postgres["post"]) as oracle:
            return await oracle.home_timeline(viewer)


def run_programmes(mesh: Mesh, *, examples: int, steps: int) -> None:
    """Run random programmes on a mesh."""
    Programme.mesh = mesh
    run_state_machine_as_test(
        Programme,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )


@pytest.mark.timeout(900)
def test_every_walk_equals_the_oracle_whatever_people_do(mesh: Mesh) -> None:
    run_programmes(mesh, examples=12, steps=30)


@pytest.mark.long
def test_every_walk_equals_the_oracle_whatever_people_do_for_long(mesh: Mesh) -> None:
    run_programmes(mesh, examples=200, steps=60)
