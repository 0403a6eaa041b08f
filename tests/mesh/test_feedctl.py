"""The operators' command line on a living mesh."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest
from click.testing import CliRunner, Result
from devmesh.mesh import Mesh
from feed_api import FeedApi
from feedctl.__main__ import main
from settling import settled

pytestmark = pytest.mark.integration


@pytest.fixture
def state(mesh: Mesh, tmp_path: Path) -> Path:
    """The state file of the shared mesh."""
    file = tmp_path / "state.json"
    file.write_text(mesh.addresses.to_json())
    return file


def feedctl(state: Path, *arguments: str) -> Result:
    """Run a command."""
    return CliRunner().invoke(main, ["--state", str(state), *arguments])


async def followed_author(mesh: Mesh) -> tuple[int, int]:
    """A viewer, and an author with three posts whom they follow."""
    async with FeedApi(mesh.addresses.gateway) as api:
        viewer, author = await api.create_user("Viewer"), await api.create_user("Author")
        for number in range(3):
            await api.create_post(author, f"Post {number}")
        await api.follow(viewer, author)
        return viewer, author


def test_status_shows_every_part_and_that_all_answer(state: Path) -> None:
    result = feedctl(state, "status")
    assert result.exit_code == 0, result.output
    for part in ("gateway", "post", "graph", "fanout", "timeline", "hydrate", "relay", "postgres", "redis", "kafka"):
        assert part in result.output


def test_status_tells_which_part_is_down(mesh: Mesh, state: Path) -> None:
    mesh.kill("hydrate")
    try:
        result = feedctl(state, "status")
    finally:
        mesh.restart("hydrate")
    assert result.exit_code == 1
    assert result.output.count("down") == 1


def test_verify_finds_every_walk_equal(mesh: Mesh, state: Path) -> None:
    asyncio.run(followed_author(mesh))
    asyncio.run(settled(mesh))
    result = feedctl(state, "verify", "--sample", "5", "--limit", "1", "--limit", "50")
    assert result.exit_code == 0, result.output
    assert "equal, 0 different" in result.output


def test_verify_names_a_difference(mesh: Mesh, state: Path) -> None:
    # The oracle is made to see what no service does: another database that lacks the posts.
    asyncio.run(followed_author(mesh))
    addresses = json.loads(state.read_text())
    admin = addresses["postgres"]["post"]
    asyncio.run(execute(admin, "CREATE DATABASE elsewhere"))
    addresses["postgres"]["post"] = admin.rpartition("/")[0] + "/elsewhere"
    asyncio.run(
        execute(addresses["postgres"]["post"], "CREATE TABLE posts (id bigint, author_id bigint, deleted boolean)")
    )
    state.write_text(json.dumps(addresses))
    result = feedctl(state, "verify", "--sample", "100000", "--limit", "50")
    assert result.exit_code == 1
    assert "extra" in result.output


async def execute(dsn: str, statement: str) -> None:
    """Run one statement."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def test_any_method_can_be_called_by_reflection(mesh: Mesh, state: Path) -> None:
    viewer, author = asyncio.run(followed_author(mesh))
    listed = feedctl(state, "call", "timeline")
    assert "GetHomeTimeline(GetHomeTimelineRequest) -> GetHomeTimelineResponse" in listed.output
    answer = feedctl(state, "call", "timeline", "GetHomeTimeline", json.dumps({"viewerId": str(viewer)}))
    assert [post["post"]["authorId"] for post in json.loads(answer.output)["posts"]] == [str(author)] * 3
    streamed = feedctl(state, "call", "graph", "StreamFollowers", json.dumps({"userId": str(author)}))
    assert json.loads(streamed.output) == {"followerIds": [str(viewer)]}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["graph", "GetUser", '{"userId": "0"}'], "INVALID_ARGUMENT: user_id: must be greater than 0"),
        (["graph", "GetUser", '{"userId": "4611686018427387904"}'], "USER_NOT_FOUND"),
        (["graph", "GetUser", "{"], "Failed to load JSON"),
        (["graph", "Nothing"], "has no method Nothing"),
        (["nobody"], "no address of 'nobody'"),
    ],
)
def test_a_refused_call_shows_why(state: Path, arguments: list[str], shown: str) -> None:
    result = feedctl(state, "call", *arguments)
    assert result.exit_code == 1
    assert shown in result.output
