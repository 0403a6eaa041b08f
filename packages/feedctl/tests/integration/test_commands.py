"""The commands against a mesh that runs."""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import httpx
import pytest
from click.testing import CliRunner, Result
from devmesh.mesh import Mesh
from feedctl.__main__ import main
from feedrank.log_file import read

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Two people, one of whom follows the other."""
    settings = {"FEED_CELEBRITY_THRESHOLD": "2"}
    with Mesh(settings, directory=tmp_path_factory.mktemp("mesh")) as mesh:
        for name in ("Ann", "Bob"):
            asked(mesh, "POST", "/api/users", json={"name": name})
        asked(mesh, "POST", "/api/following", user=2, json={"userIds": ["1"]})
        yield mesh


def asked(mesh: Mesh, method: str, path: str, *, user: int | None = None, json: object = None) -> httpx.Response:
    headers = {} if user is None else {"X-User-Id": str(user)}
    answer = httpx.request(method, f"{mesh.addresses.gateway}{path}", headers=headers, json=json, timeout=30)
    return answer.raise_for_status()


def feedctl(mesh: Mesh, directory: Path, *words: str) -> Result:
    state = directory / "state.json"
    state.write_text(mesh.addresses.to_json())
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["--state", str(state), *words])


def posted(mesh: Mesh, author: int) -> None:
    asked(mesh, "POST", "/api/posts", user=author, json={"content": "hello"})


def test_status_shows_every_part_and_how_fan_out_is_doing(mesh: Mesh, tmp_path: Path) -> None:
    result = feedctl(mesh, tmp_path, "status")
    assert result.exit_code == 0, result.output
    assert set(mesh.addresses.grpc) <= set(result.output.split())
    assert "outbox: none" in result.output
    assert "lag: none" in result.output
    assert "authors are pulled from 2 followers" in result.output


def test_status_tells_which_part_is_down(mesh: Mesh, tmp_path: Path) -> None:
    mesh.kill("post-relay")
    try:
        result = feedctl(mesh, tmp_path, "status")
    finally:
        mesh.restart("post-relay")
    assert result.exit_code == 1
    (down,) = [line for line in result.output.splitlines() if " down " in line]
    assert "post-relay" in down


def test_walks_equal_the_truth_right_after_writes(mesh: Mesh, tmp_path: Path) -> None:
    asked(mesh, "GET", "/api/feed", user=2)  # from now on there is a timeline to be pushed to
    for _ in range(5):
        posted(mesh, 1)
    result = feedctl(mesh, tmp_path, "verify", "--limit", "2")
    assert result.exit_code == 0, result.output
    assert "2 walks, 10 posts: 2 equal, 0 different" in result.output


def test_what_did_not_settle_in_time_is_told(mesh: Mesh, tmp_path: Path) -> None:
    mesh.kill("post-relay")
    try:
        posted(mesh, 1)
        result = feedctl(mesh, tmp_path, "verify", "--settle", "0.2")
    finally:
        mesh.restart("post-relay")
    assert "not settled after 0.2 s: 1 in outboxes" in result.output
    assert "2 walks" in result.output


def test_rank_show_tells_the_model_the_weights_and_the_rules(mesh: Mesh, tmp_path: Path) -> None:
    result = feedctl(mesh, tmp_path, "rank", "show")
    assert result.exit_code == 0, result.output
    assert "model baseline" in result.output
    assert "for the newest 400 posts" in result.output
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.output.splitlines() if "│" in line]
    # What `rank train` judges orders by where nobody says otherwise.
    assert ",".join("=".join(row) for row in rows) == "like=1,reply=3,repost=2,dwell=0.3,negative=-10"
    assert "like=1,reply=3,repost=2,dwell=0.3,negative=-10" in feedctl(mesh, tmp_path, "rank", "train", "-h").output
    assert "author-diversity" in result.output


def test_rank_figures_tell_that_nobody_has_seen_anything(mesh: Mesh, tmp_path: Path) -> None:
    result = feedctl(mesh, tmp_path, "rank", "figures", "--days", "1")
    assert (result.exit_code, result.output) == (
        1,
        "Error: nobody has told of having seen anything in the latest 1 d\n",
    )


def test_an_export_tells_topics_as_post_knows_them(mesh: Mesh, tmp_path: Path) -> None:
    asked(mesh, "POST", "/api/posts", user=1, json={"content": "about #trees and #Forests"})
    newest = asked(mesh, "GET", "/api/feed", user=1).json()["items"][0]["id"]
    seen = {"impressions": [{"postId": newest, "position": 0, "dwellMs": 6_000, "view": "latest"}]}
    asked(mesh, "POST", "/api/feed/impressions", user=2, json=seen)
    result = feedctl(mesh, tmp_path, "rank", "export", str(tmp_path / "log.gz"))
    assert result.exit_code == 0, result.output
    [post] = read(tmp_path / "log.gz").posts
    assert post["topics"].tolist() == [crc32(b"trees"), crc32(b"forests"), 0, 0]
