"""The commands against a mesh that runs."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from devmesh.mesh import Mesh
from feedctl.__main__ import main

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
