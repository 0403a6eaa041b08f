"""Random programmes of operations and faults on the real mesh, checked against the oracle and what each moment promises.

After every step, settled or not, what must show at once shows, and nothing is ever lost again that has once been certain.
Whenever the mesh says that it has settled, every walk equals the oracle. Steps pile up between the two, so that their
handling overlaps. Hypothesis shrinks a programme that fails; the blob that it prints reproduces it.
"""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any, TypeVar, cast

import pytest
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.oracle import Walk, faults
from feedkit import keys
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
from limits import LENGTH, THRESHOLD
from settling import settled
from stored_keys import StoredKeys
from walks import short_pages, truth_of

pytestmark = pytest.mark.integration

# As many as it takes for one of them to be followed by enough others to be pulled.
PEOPLE = THRESHOLD + 1
PROCESSES = ("post", "graph", "post-relay", "graph-relay", "fanout", "hydrate", "timeline", "gateway")

# Something visible is always in it: what shows nothing is no post.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20).map("a{}".format)
PERSON = st.integers(0, PEOPLE - 1)

Result = TypeVar("Result")
NOTHING = cast("Any", multiple())


class Programme(RuleBasedStateMachine):
    """People who follow, unfollow, post, delete and read, while processes die and Redis forgets."""

    mesh: Mesh

    posts = Bundle("posts")
    cursors = Bundle("cursors")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.api = FeedApi(self.mesh.addresses.gateway, patient=True)
        self.stored = StoredKeys(self.mesh.addresses.redis)
        self.people: list[int] = []
        # The test's own record of acknowledged writes; never read back from the product.
        self.follows: set[tuple[int, int]] = set()
        self.alive: dict[int, int] = {}
        # What each person's feed has to show at any moment: what it showed when all was settled, and their own posts.
        self.certain: dict[int, set[int]] = {}

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run asynchronous work in the programme's own loop."""
        return self.runner.run(work)

    def teardown(self) -> None:
        try:
            self.settle_and_compare(limit=2)
        finally:
            self.run(self.api.http.aclose())
            self.run(self.stored.close())
            self.runner.close()

    @initialize()
    def make_people(self) -> None:
        self.people = [self.run(self.api.create_user(f"Person {number}")) for number in range(PEOPLE)]
        self.certain = {person: set() for person in self.people}

    # --- the ledger ------------------------------------------------------------------------------------------------

    def expected(self, viewer: int) -> list[int]:
        """The ledger's home timeline of a viewer, newest first."""
        return sorted(
            (post for post, author in self.alive.items() if author == viewer or (viewer, author) in self.follows),
            reverse=True,
        )

    def written(self, post: int, author: int) -> None:
        """Note a post."""
        self.alive[post] = author
        self.certain[author].add(post)

    # --- what people do ----------------------------------------------------------------------------------------------

    @rule(target=posts, author=PERSON, content=TEXT)
    def post(self, author: int, content: str) -> Any:
        created = self.run(self.api.create_post(self.people[author], content))
        post_id = int(created["id"])
        newest = self.run(self.api.feed(self.people[author], limit="1"))["items"][0]
        assert int(newest["id"]) == post_id
        assert newest["content"] == content
        self.written(post_id, self.people[author])
        return post_id

    @rule(author=PERSON)
    def post_more_than_a_timeline_holds(self, author: int) -> None:
        for number in range(LENGTH + 1):
            created = self.run(self.api.create_post(self.people[author], f"Post {number}"))
            self.written(int(created["id"]), self.people[author])

    @rule(post=consumes(posts))
    def delete(self, post: int) -> None:
        author = self.alive.pop(post)
        self.run(self.api.delete_post(author, post))
        for certain in self.certain.values():
            certain.discard(post)

    @rule(viewer=PERSON, followee=PERSON)
    def follow(self, viewer: int, followee: int) -> None:
        if viewer != followee:
            self.run(self.api.follow(self.people[viewer], self.people[followee]))
            self.follows.add((self.people[viewer], self.people[followee]))

    @rule(viewer=PERSON)
    def follow_everybody(self, viewer: int) -> None:
        others = [person for person in self.people if person != self.people[viewer]]
        self.run(self.api.follow_many(self.people[viewer], others))
        self.follows |= {(self.people[viewer], other) for other in others}

    @rule(celebrity=PERSON)
    def be_followed_by_everybody(self, celebrity: int) -> None:
        for viewer in range(PEOPLE):
            self.follow(viewer, celebrity)

    @rule(viewer=PERSON, followee=PERSON)
    def unfollow(self, viewer: int, followee: int) -> None:
        if viewer != followee:
            leaving = self.people[followee]
            self.run(self.api.unfollow(self.people[viewer], leaving))
            self.follows.discard((self.people[viewer], leaving))
            self.certain[self.people[viewer]] -= {post for post, author in self.alive.items() if author == leaving}

    # --- what befalls the mesh ---------------------------------------------------------------------------------------

    @rule(process=st.sampled_from(PROCESSES))
    def kill_and_restart(self, process: str) -> None:
        self.mesh.kill(process)
        self.mesh.restart(process)

    @rule()
    def redis_forgets_everything(self) -> None:
        self.run(self.stored.flush())

    @rule(viewer=PERSON)
    def redis_forgets_a_timeline(self, viewer: int) -> None:
        self.run(self.stored.delete(keys.timeline(self.people[viewer])))

    @rule(viewer=PERSON)
    def redis_forgets_a_viewer(self, viewer: int) -> None:
        self.run(self.stored.delete_viewer(self.people[viewer]))

    # --- what feeds show ---------------------------------------------------------------------------------------------

    @invariant()
    def every_moment_keeps_its_promises(self) -> None:
        for person in self.people:
            shown = self.walk(person, 50).post_ids
            assert all(newer > older for newer, older in pairwise(shown))
            assert set(shown) <= set(self.expected(person)), "deleted, or not followed"
            assert self.certain[person] <= set(shown), "lost"

    @rule(limit=st.integers(1, 7))
    def settle_and_compare(self, limit: int) -> None:
        self.run(settled(self.mesh))
        for person in self.people:
            expected = self.expected(person)
            for size in (limit, 50):
                walked = self.walk(person, size)
                assert faults(expected, walked) + short_pages(walked) == []
            assert self.run(truth_of(self.mesh, person)) == expected
            self.certain[person] = set(expected)

    @rule(target=cursors, viewer=PERSON, limit=st.integers(1, 3))
    def keep_a_cursor(self, viewer: int, limit: int) -> Any:
        page = self.run(self.api.feed(self.people[viewer], limit=str(limit)))
        return (viewer, page["nextCursor"]) if "nextCursor" in page else NOTHING

    @rule(kept=cursors, limit=st.integers(1, 4))
    def go_on_from_a_kept_cursor(self, kept: tuple[int, str], limit: int) -> None:
        viewer, cursor = kept
        position = int(cursor.partition(":")[2])
        self.run(settled(self.mesh))
        page = self.run(self.api.feed(self.people[viewer], limit=str(limit), cursor=cursor))
        older = [post for post in self.expected(self.people[viewer]) if post < position]
        assert [int(item["id"]) for item in page["items"]] == older[:limit]

    def walk(self, person: int, limit: int) -> Walk:
        """A walk of a person's feed."""
        return self.run(self.api.walk_feed(person, limit))


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
def test_every_walk_equals_the_oracle_whatever_happens(mesh: Mesh) -> None:
    run_programmes(mesh, examples=8, steps=30)


@pytest.mark.long
def test_every_walk_equals_the_oracle_whatever_happens_for_long(mesh: Mesh) -> None:
    run_programmes(mesh, examples=200, steps=60)
