"""The operators' command line on a living mesh."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import asyncpg
import pytest
from click.testing import CliRunner, Result
from devmesh.mesh import Mesh
from feed.post.v1 import post_pb2
from feed_api import FeedApi
from feedctl.__main__ import main
from feedctl.rebuild import slot
from feedkit import keys
from limits import THRESHOLD
from polling import until
from redis import asyncio as redis
from settling import settled
from stored_keys import StoredKeys
from timelines import users, warmed
from walks import each

pytestmark = pytest.mark.integration


@pytest.fixture
def state(mesh: Mesh, tmp_path: Path) -> Path:
    """The state file of the shared mesh."""
    file = tmp_path / "state.json"
    file.write_text(mesh.addresses.to_json())
    return file


def feedctl(state: Path, *arguments: str, answer: str = "") -> Result:
    """Run a command, on a wide terminal, with this answer to what it asks."""
    environment = {"COLUMNS": "200", "FEED_OPERATOR_TOKEN": ""}
    return CliRunner(env=environment).invoke(main, ["--state", str(state), *arguments], input=answer)


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


async def execute(dsn: str, statement: str, *arguments: int) -> None:
    """Run one statement."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement, *arguments)
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


# --- accounts ----------------------------------------------------------------------------------------------------------


async def feed_of(mesh: Mesh, viewer: int) -> list[int]:
    """A viewer's home feed, newest first."""
    async with FeedApi(mesh.addresses.gateway) as api:
        return (await api.walk_feed(viewer, 20)).post_ids


def test_a_suspended_author_is_gone_from_the_next_read_on_and_a_restored_one_is_back(mesh: Mesh, state: Path) -> None:
    viewer, author = asyncio.run(followed_author(mesh))
    before = asyncio.run(feed_of(mesh, viewer))
    result = feedctl(state, "user", "suspend", str(author))
    assert (result.exit_code, result.output) == (0, f"user {author} is suspended\n")
    assert asyncio.run(feed_of(mesh, viewer)) == []
    result = feedctl(state, "user", "restore", str(author))
    assert (result.exit_code, result.output) == (0, f"user {author} is restored\n")
    assert asyncio.run(feed_of(mesh, viewer)) == before
    assert len(before) == 3


@pytest.mark.parametrize("command", ["suspend", "restore"])
@pytest.mark.parametrize(
    ("user", "changes", "shown"),
    [
        ("4611686018427387904", {}, "Error: there is no user 4611686018427387904"),
        ("1", {"operator_token": "made up"}, "does not take this operators' token"),
        ("1", {"operator_token": ""}, "Error: changing accounts needs the operators' token: set FEED_OPERATOR_TOKEN"),
        ("1", {"grpc": {"graph": "127.0.0.1:1"}}, "Error: graph cannot be reached at 127.0.0.1:1"),
        ("1", {"grpc": {}}, "Error: changing accounts needs the gRPC address of `graph`"),
    ],
)
def test_why_an_account_was_not_changed_is_one_line(
    state: Path, command: str, user: str, changes: dict[str, object], shown: str
) -> None:
    state.write_text(json.dumps(json.loads(state.read_text()) | changes))
    result = feedctl(state, "user", command, user)
    assert result.exit_code == 1
    assert shown in result.output
    assert result.output.count("\n") == 1


async def entangled_author(mesh: Mesh, followers: int = 3) -> tuple[int, list[int]]:
    """Somebody with posts and ties of every kind, all of it cached, and those whom the ties lead to."""
    async with FeedApi(mesh.addresses.gateway) as api, StoredKeys(mesh.addresses.redis) as stored:
        author, followee, blocked, muted, *followed_by = await users(api, "Entangled", 4 + followers)
        for number in range(5):
            await api.create_post(author, f"Post {number}")
        await api.create_post(followee, "Of another")
        await each(followed_by, lambda follower: api.follow(follower, author))
        await api.follow(author, followee)
        await api.block(author, blocked)
        await api.mute(author, muted)
        await api.mute(blocked, author)
        await warmed(mesh, api, stored, [author, *followed_by])
        # Once it is known whether the author is pulled, which is found out by a post.
        await api.create_post(author, "The last one")
        await settled(mesh)
        await each(followed_by, api.feed)
        return author, [*followed_by, followee, blocked, muted]


@pytest.mark.parametrize("followers", [2, THRESHOLD], ids=["pushed", "pulled"])
def test_a_purged_user_is_erased_everywhere_and_that_is_proved(mesh: Mesh, state: Path, followers: int) -> None:
    author, others = asyncio.run(entangled_author(mesh, followers))
    result = feedctl(state, "user", "purge", str(author), "--verify", "--wait", "60", answer="y\n")
    assert result.exit_code == 0, result.output
    assert f"for good, with 6 posts and what ties them to {len(others)} others?" in result.output
    assert f"user {author} is erased: nothing is left" in result.output
    assert {line.split()[1] for line in result.output.splitlines() if "│" in line} == {"graph:", "post:", "redis:"}
    assert "6 known posts" in result.output and f"of {len(others)} who were tied" in result.output
    assert asyncio.run(feed_of(mesh, others[0])) == []


def test_an_erasure_is_proved_once_more_later_without_a_token_and_changes_nothing(mesh: Mesh, state: Path) -> None:
    author, others = asyncio.run(entangled_author(mesh))
    assert feedctl(state, "user", "purge", str(author), "--yes").exit_code == 0
    state.write_text(json.dumps(json.loads(state.read_text()) | {"operator_token": ""}))
    tied = [word for other in others for word in ("--tied", str(other))]
    result = feedctl(state, "user", "purge", str(author), "--verify", *tied)
    assert result.exit_code == 0, result.output
    assert "of 6 who were tied" in result.output
    assert "nothing is left" in result.output


def test_whatever_is_left_of_a_purged_user_is_named_with_its_place(mesh: Mesh, state: Path) -> None:
    author, others = asyncio.run(entangled_author(mesh))
    assert feedctl(state, "user", "purge", str(author), "--yes").exit_code == 0
    asyncio.run(leave_behind(mesh, author, others))
    result = feedctl(state, "user", "purge", str(author), "--verify", "--tied", str(others[0]))
    asyncio.run(clear_away(mesh, author, others))
    assert result.exit_code == 1
    (told,) = [line for line in result.output.splitlines() if line.startswith(f"of user {author} there is left: ")]
    assert told.partition(": ")[2].split(", ") == [
        "1 in graph: users (but a tombstone)",
        "1 in graph: follows",
        "1 in post: posts",
        f"1 in redis: {keys.own(author)}",
        "1 in redis: ctx:v1:*",
        "1 in graph: counts that do not equal their rows",
        "1 in redis: post:v1:* by author",
    ]


async def leave_behind(mesh: Mesh, author: int, others: list[int]) -> None:
    """Let a follow, a post and a name stand that should have been erased, and copies of them."""
    graph, post = mesh.addresses.postgres["graph"], mesh.addresses.postgres["post"]
    await execute(graph, "UPDATE users SET name = 'Somebody' WHERE id = $1", author)
    await execute(graph, "INSERT INTO follows (follower_id, followee_id) VALUES ($1, $2)", others[0], author)
    await execute(post, "INSERT INTO posts (id, author_id, content, media) VALUES ($1, $1, 'left', '[]')", author)
    payloads = {
        keys.own(author): keys.encode_post_list([author], 0),
        keys.context(others[0]): keys.encode_context(keys.Context([author])),
        keys.post(author): post_pb2.Post(id=author, author_id=author).SerializeToString(),
    }
    async with cast("Any", redis.Redis).from_url(mesh.addresses.redis) as client:
        await client.mset({key: keys.value(payload) for key, payload in payloads.items()})


async def clear_away(mesh: Mesh, author: int, others: list[int]) -> None:
    """Take away again what was left behind."""
    graph, post = mesh.addresses.postgres["graph"], mesh.addresses.postgres["post"]
    await execute(graph, "UPDATE users SET name = '' WHERE id = $1", author)
    await execute(graph, "DELETE FROM follows WHERE followee_id = $1", author)
    await execute(post, "DELETE FROM posts WHERE author_id = $1", author)
    async with StoredKeys(mesh.addresses.redis) as stored:
        await stored.delete(keys.own(author), keys.context(others[0]), keys.post(author))


def test_nobody_is_purged_who_was_not_confirmed(mesh: Mesh, state: Path) -> None:
    viewer, author = asyncio.run(followed_author(mesh))
    result = feedctl(state, "user", "purge", str(author), answer="n\n")
    assert result.exit_code == 1
    assert "Aborted!" in result.output
    assert len(asyncio.run(feed_of(mesh, viewer))) == 3


def test_nobody_is_purged_who_never_was(state: Path) -> None:
    result = feedctl(state, "user", "purge", "4611686018427387904", "--yes")
    assert result.exit_code == 1
    assert result.output == "Error: there is no user 4611686018427387904, and never was\n"


# --- timelines ---------------------------------------------------------------------------------------------------------


async def readers(mesh: Mesh, count: int) -> list[int]:
    """So many viewers with a timeline, the newest users of all, and after them one who follows nobody."""
    async with FeedApi(mesh.addresses.gateway) as api, StoredKeys(mesh.addresses.redis) as stored:
        author = await api.create_user("Author")
        await api.create_post(author, "Post")
        viewers = sorted(await users(api, "Reader", count + 1))
        await each(viewers[:-1], lambda viewer: api.follow(viewer, author))
        await warmed(mesh, api, stored, viewers[:-1])
        await api.feed(viewers[-1])
        return viewers


async def standing(mesh: Mesh, viewers: list[int]) -> set[int]:
    """Which of these viewers have a timeline in Redis."""
    async with StoredKeys(mesh.addresses.redis) as stored:
        return {viewer for viewer in viewers if await stored.timeline(viewer) is not None}


async def lose(mesh: Mesh, viewers: list[int]) -> None:
    """Let the timelines of these viewers vanish."""
    async with StoredKeys(mesh.addresses.redis) as stored:
        await stored.delete(*map(keys.timeline, viewers))


def test_timelines_of_all_who_are_active_are_rebuilt_and_of_those_who_follow_nobody_not(
    mesh: Mesh, state: Path
) -> None:
    viewers = asyncio.run(readers(mesh, 3))
    asyncio.run(lose(mesh, viewers))
    result = feedctl(state, "timeline", "rebuild", "--all", "--after", str(viewers[0] - 1))
    assert (result.exit_code, result.output) == (0, "timelines asked for: 3, viewers who follow nobody: 1\n")
    assert asyncio.run(standing(mesh, viewers)) == set(viewers[:-1]), "at once, because it has settled"


def test_only_missing_timelines_are_rebuilt_where_that_is_asked_for(mesh: Mesh, state: Path) -> None:
    viewers = asyncio.run(readers(mesh, 3))
    asyncio.run(lose(mesh, viewers[:1]))
    result = feedctl(state, "timeline", "rebuild", "--all", "--missing", "--after", str(viewers[0] - 1))
    assert (result.exit_code, result.output) == (
        0,
        "timelines asked for: 1, there already: 2, viewers who follow nobody: 1\n",
    )
    assert asyncio.run(standing(mesh, viewers)) == set(viewers[:-1])


def test_a_lost_shard_is_rebuilt_by_its_slots_alone(mesh: Mesh, state: Path) -> None:
    viewers = asyncio.run(readers(mesh, 4))
    asyncio.run(lose(mesh, viewers))
    lost = [viewer for viewer in viewers[:-1] if slot(viewer) < slot(viewers[0])]
    ranges = ["--slots", f"0-{slot(viewers[0])}"] if slot(viewers[0]) else ["--slots", "0"]
    result = feedctl(state, "timeline", "rebuild", *ranges, "--after", str(viewers[0] - 1))
    assert result.exit_code == 0, result.output
    assert asyncio.run(standing(mesh, viewers)) == {viewers[0], *lost}


def test_timelines_of_named_viewers_are_rebuilt_and_unknown_ones_are_told(mesh: Mesh, state: Path) -> None:
    viewers = asyncio.run(readers(mesh, 2))
    asyncio.run(lose(mesh, viewers))
    result = feedctl(state, "timeline", "rebuild", "--viewer", str(viewers[1]), "--viewer", "4611686018427387904")
    assert (result.exit_code, result.output) == (1, "timelines asked for: 1, unknown viewers: 1\n")
    assert asyncio.run(standing(mesh, viewers)) == {viewers[1]}


def test_who_interrupts_a_rebuild_is_told_where_to_go_on_and_together_all_are_rebuilt(mesh: Mesh, state: Path) -> None:
    viewers = asyncio.run(readers(mesh, 20))
    asyncio.run(lose(mesh, viewers))
    command = ["--state", str(state), "timeline", "rebuild", "--all", "--after", str(viewers[0] - 1), "--rate", "5"]
    running = subprocess.Popen([sys.executable, "-m", "feedctl", *command], stdout=subprocess.PIPE, text=True)
    asyncio.run(until_some_stand(mesh, viewers))
    running.send_signal(signal.SIGINT)
    told, _ = running.communicate(timeout=20)
    assert running.returncode == 130, told
    (reached,) = re.findall(r"goes on with --after (\d+)", told)
    rest = [viewer for viewer in viewers[:-1] if viewer > int(reached)]
    assert 0 < len(rest) < 20
    result = feedctl(state, "timeline", "rebuild", "--all", "--after", reached)
    assert (result.exit_code, result.output) == (0, f"timelines asked for: {len(rest)}, viewers who follow nobody: 1\n")
    assert asyncio.run(standing(mesh, viewers)) == set(viewers[:-1])


async def until_some_stand(mesh: Mesh, viewers: list[int]) -> None:
    """Return when two of these viewers have a timeline."""

    async def some_stand() -> bool:
        return len(await standing(mesh, viewers)) > 1

    await until(some_stand, "some timelines")


def test_a_rebuild_that_fails_says_where_to_go_on(mesh: Mesh, state: Path) -> None:
    viewers = asyncio.run(readers(mesh, 1))
    addresses = json.loads(state.read_text())
    addresses["grpc"]["fanout"] = "127.0.0.1:1"
    state.write_text(json.dumps(addresses))
    result = feedctl(state, "timeline", "rebuild", "--all", "--after", str(viewers[0] - 1))
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "timelines asked for: 0, viewers who follow nobody: 1",
        f"Error: fanout: cannot be reached; the same command goes on with --after {viewers[0] - 1}",
    ]


def test_what_is_not_done_in_time_is_told(mesh: Mesh, state: Path) -> None:
    viewers = asyncio.run(readers(mesh, 1))
    mesh.kill("post-relay")
    try:
        asyncio.run(post(mesh, viewers[0]))
        result = feedctl(state, "timeline", "rebuild", "--viewer", str(viewers[0]), "--settle", "0.2")
    finally:
        mesh.restart("post-relay")
    assert result.exit_code == 1
    assert "timelines asked for: 1\nnot settled after 0.2 s: " in result.output


async def post(mesh: Mesh, author: int) -> None:
    """Write something."""
    async with FeedApi(mesh.addresses.gateway) as api:
        await api.create_post(author, "Post")
