"""The addresses that feedctl talks to."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from feedctl.__main__ import main
from feedctl.targets import Targets, TargetsError


def test_addresses_are_read_as_make_up_writes_them(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(
        json.dumps(
            {
                "gateway": "http://127.0.0.1:8080",
                "grpc": {"post": "127.0.0.1:15051"},
                "postgres": {"post": "postgresql://postgres@127.0.0.1/post"},
                "redis": "redis://127.0.0.1",
                "kafka": "127.0.0.1:9092",
                "pids": {"post": 1},
            }
        )
    )
    assert Targets.read(state).gateway == "http://127.0.0.1:8080"


def test_the_operators_token_is_in_the_file_or_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FEED_OPERATOR_TOKEN", raising=False)
    state = tmp_path / "state.json"
    addresses: dict[str, object] = {"gateway": "http://127.0.0.1:8080", "grpc": {}, "postgres": {}}
    in_the_file, in_the_environment = "of the file", "of the environment"
    state.write_text(json.dumps(addresses))
    assert Targets.read(state).operator_token is None
    state.write_text(json.dumps(addresses | {"operator_token": in_the_file}))
    assert Targets.read(state).operator_token == in_the_file
    monkeypatch.setenv("FEED_OPERATOR_TOKEN", in_the_environment)
    assert Targets.read(state).operator_token == in_the_environment
    assert in_the_environment not in repr(Targets.read(state))


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(TargetsError, match="make up"):
        Targets.read(tmp_path / "state.json")


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"gateway": 1}', "\x00"])
def test_a_file_that_is_none_is_one_clear_line(tmp_path: Path, content: str) -> None:
    state = tmp_path / "state.json"
    state.write_text(content)
    result = CliRunner().invoke(main, ["--state", str(state), "status"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1
