import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from devmesh.addresses import Addresses
from devmesh.errors import MeshError
from devmesh.state import State

OURS = "only-ours"
ADDRESSES = Addresses(
    gateway="http://127.0.0.1:8080",
    grpc={"post": "127.0.0.1:15051"},
    postgres={"post": "postgresql://postgres@127.0.0.1:15432/post"},
    redis="redis://127.0.0.1:16379/0",
    kafka="127.0.0.1:19092",
    pids={"mesh": 17, "post": 18},
    operator_token=OURS,
)


def test_addresses_survive_json() -> None:
    assert Addresses.from_json(ADDRESSES.to_json()) == ADDRESSES


def test_the_state_file_has_the_documented_keys() -> None:
    assert set(json.loads(ADDRESSES.to_json())) == {
        "gateway",
        "grpc",
        "postgres",
        "redis",
        "kafka",
        "pids",
        "operator_token",
    }


def test_the_operator_token_is_in_the_file_alone() -> None:
    assert json.loads(ADDRESSES.to_json())["operator_token"] == OURS
    assert OURS not in repr(ADDRESSES), "where a failing test or a log would show it"


def test_other_json_is_not_taken_for_addresses() -> None:
    with pytest.raises(ValueError, match="not the addresses"):
        Addresses.from_json("{}")


def test_nobody_owns_a_directory_that_was_never_used(tmp_path: Path) -> None:
    assert State(tmp_path / "never").owner() is None


def test_the_owner_is_who_claimed_it(tmp_path: Path) -> None:
    state = State(tmp_path)
    with state.claim():
        assert state.owner() == os.getpid()
    assert state.owner() is None


def test_a_second_claim_is_refused_and_names_the_first(tmp_path: Path) -> None:
    with (
        State(tmp_path).claim(),
        pytest.raises(MeshError, match=rf"already runs here \(pid {os.getpid()}\)"),
        State(tmp_path).claim(),
    ):
        pass


def test_the_state_file_lives_from_writing_to_the_end_of_the_claim(tmp_path: Path) -> None:
    state = State(tmp_path)
    with state.claim():
        assert state.read() is None
        state.write(ADDRESSES)
        assert state.read() == ADDRESSES
    assert not state.file.exists()


def test_writing_leaves_no_draft(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.write(ADDRESSES)
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_nobody_else_may_read_the_state_file(tmp_path: Path) -> None:
    state = State(tmp_path)
    state.file.write_text("an older one, for all to read")
    state.file.chmod(0o644)
    state.file.with_suffix(".draft").touch(0o644)
    old_mask = os.umask(0)
    try:
        state.write(ADDRESSES)
    finally:
        os.umask(old_mask)
    assert state.file.stat().st_mode & 0o777 == 0o600


def test_what_a_dead_mesh_left_is_not_believed_and_is_cleared_by_the_next(tmp_path: Path) -> None:
    """The stale file names a pid that lives and is ours; it is still not that of a mesh."""
    died = f"""
import os, pathlib
from devmesh.state import State
claim = State(pathlib.Path({str(tmp_path)!r})).claim()
claim.__enter__()
os._exit(9)
"""
    subprocess.run(
        [sys.executable, "-c", died], check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    state = State(tmp_path)
    state.write(ADDRESSES)
    assert state.owner() is None
    assert state.read() is None
    with state.claim():
        assert not state.file.exists()
