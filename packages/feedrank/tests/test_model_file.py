"""A model file brings back what was written, or is refused in words."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from feedrank import model_file
from feedrank.features import FEATURES, NEUTRAL
from feedrank.model_file import ModelError, read, write
from feedrank.signals import PREDICTED
from feedrank.trees import MOST_LEAVES, Forest, Split
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TRAINED_AT_MS = 1_767_225_599_000  # 2025-12-31T23:59:59Z
FOREST: Forest = {
    signal: [Split("age", 0.1 + number, -0.3, Split("seen", 0.5, 1e-17, 2.0)), 0.25]
    for number, signal in enumerate(PREDICTED)
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a model was written."""
    path = tmp_path / "model.json"
    write(path, FOREST, trained_at_ms=TRAINED_AT_MS)
    return path


def change(path: Path, **members: Any) -> None:
    """Write other members into a file, past everything that takes care."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


def test_what_was_written_is_read_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    calibration = [(0.1 * number, -0.7) for number in range(len(PREDICTED))]
    neutral = NEUTRAL + np.float32(0.1)
    metrics = {"like": {"auc": 0.71}, "rows": 12}
    version = write(
        path, FOREST, trained_at_ms=TRAINED_AT_MS, neutral=neutral, calibration=calibration, metrics=metrics
    )
    file = read(path)
    assert file.forest == FOREST
    assert file.calibration == calibration
    assert file.metrics == metrics
    assert (file.version, file.trained_at_ms) == (version, TRAINED_AT_MS)
    np.testing.assert_array_equal(file.neutral, neutral)


def test_a_version_says_when_it_was_trained_and_differs_with_what_is_predicted(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    version = write(path, FOREST, trained_at_ms=TRAINED_AT_MS)
    written = path.read_bytes()
    assert version.startswith("20251231T235959Z-")
    assert write(path, FOREST, trained_at_ms=TRAINED_AT_MS) == version
    assert path.read_bytes() == written
    assert write(path, {**FOREST, "like": [0.5]}, trained_at_ms=TRAINED_AT_MS) != version
    assert write(path, FOREST, trained_at_ms=TRAINED_AT_MS, calibration=[(2.0, 0.0)] * 5) != version


def test_a_new_model_takes_the_place_of_an_old_one_in_one_step(path: Path) -> None:
    with path.open() as old:
        write(path, {**FOREST, "like": [0.5]}, trained_at_ms=TRAINED_AT_MS + 1_000)
        assert json.load(old)["trained_at_ms"] == TRAINED_AT_MS
    assert read(path).trained_at_ms == TRAINED_AT_MS + 1_000
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_not_written(tmp_path: Path, number: float) -> None:
    arguments: list[dict[str, Any]] = [
        {"metrics": {"auc": number}},
        {"calibration": [(number, 0.0)] * len(PREDICTED)},
        {"neutral": np.full(len(FEATURES), number)},
    ]
    for argument in arguments:
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(tmp_path / "model.json", FOREST, trained_at_ms=TRAINED_AT_MS, **argument)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nowhere\.json: the model cannot be read: No such file"):
        read(tmp_path / "nowhere.json")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        read(tmp_path)


def test_a_file_that_is_too_large_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_file, "LARGEST", 1_000)
    with pytest.raises(ModelError, match="too many for a model"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickled", b"PK\x03\x04", b"[1]", b"{}", b"[" * 100_000, b'{"a": 1'])
def test_another_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"model\.json: "):
        read(path)


def test_a_file_of_another_format_is_refused(path: Path) -> None:
    change(path, format=2)
    with pytest.raises(ModelError, match="the file is of format 2; this program reads format 1"):
        read(path)


SWAPPED = [FEATURES[1], FEATURES[0], *FEATURES[2:]]


@pytest.mark.parametrize(
    ("features", "difference"),
    [
        ([*FEATURES, "weather"], "'weather' is unknown here"),
        ([name for name in FEATURES if name != "seen"], "'seen' is unknown to it"),
        ([*FEATURES[:-1], "sighted"], "'sighted' is unknown here, 'seen' is unknown to it"),
        (SWAPPED, "'affinity' stands in the place of 'age'"),
        ([*FEATURES, "age"], "some are named twice"),
        (None, "none are named"),
    ],
)
def test_a_model_of_other_features_is_refused_by_their_names(path: Path, features: Any, difference: str) -> None:
    change(path, features=features)
    with pytest.raises(ModelError, match=f"the model has other features: {difference}"):
        read(path)


def test_a_model_of_other_signals_is_refused_by_their_names(path: Path) -> None:
    change(path, signals=["like", "click"])
    with pytest.raises(ModelError, match="other signals: 'click' is unknown here, 'reply' is unknown to it"):
        read(path)


def deep(many: int) -> list[Any]:
    """A tree of JSON with so many leaves."""
    tree: Any = 0.0
    for _ in range(many - 1):
        tree = ["age", 1.0, 0.0, tree]
    return tree


@pytest.mark.parametrize(
    "tree",
    [
        ["weather", 1.0, 0.0, 0.0],
        [["age"], 1.0, 0.0, 0.0],
        ["age", "1.0", 0.0, 0.0],
        ["age", float("nan"), 0.0, 0.0],
        ["age", 1.0, 0.0],
        ["age", 1.0, 0.0, True],
        ["age", 1.0, 0.0, None],
        "age",
        float("inf"),
        10**400,
        deep(MOST_LEAVES + 1),
    ],
    ids=lambda tree: str(tree)[:40],
)
def test_a_tree_that_cannot_be_asked_is_refused(path: Path, tree: Any) -> None:
    trees = {signal: list(trees) for signal, trees in FOREST.items()}
    change(path, trees={**trees, "like": [tree]})
    with pytest.raises(ModelError, match=r"malformed|damaged"):
        read(path)


@pytest.mark.parametrize("value", [None, "x", [1], {"like": [1.0, 2.0, 3.0]}], ids=repr)
@pytest.mark.parametrize("member", ["version", "trained_at_ms", "neutral", "calibration", "trees"])
def test_a_member_of_another_kind_is_refused(path: Path, member: str, value: Any) -> None:
    change(path, **{member: value})
    with pytest.raises(ModelError, match=r"malformed|was changed"):
        read(path)


@pytest.mark.parametrize("member", ["version", "trained_at_ms", "neutral", "calibration", "trees", "metrics"])
def test_a_file_without_one_of_its_members_is_refused(path: Path, member: str) -> None:
    members = json.loads(path.read_text())
    del members[member]
    path.write_text(json.dumps(members))
    with pytest.raises(ModelError, match=f"malformed: KeyError.*{member}"):
        read(path)


def test_a_model_that_was_changed_by_hand_is_refused(path: Path) -> None:
    path.write_text(path.read_text().replace("2.0", "2.1", 1))
    with pytest.raises(ModelError, match=r"what it predicts was changed since version 20251231T235959Z-"):
        read(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_refused_or_says_the_same(path: Path, data: st.DataObject) -> None:
    write(path, FOREST, trained_at_ms=TRAINED_AT_MS)
    whole = path.read_bytes()
    begin = data.draw(st.integers(0, len(whole) - 1))
    end = data.draw(st.integers(begin, len(whole)))
    path.write_bytes(whole[:begin] + data.draw(st.binary(max_size=3)) + whole[end:])
    try:
        file = read(path)
    except ModelError:
        return
    assert file.forest == FOREST
    np.testing.assert_array_equal(file.neutral, NEUTRAL)


def test_anybody_can_read_a_tree(path: Path) -> None:
    trees = json.loads(path.read_text())["trees"]
    assert trees["reply"] == [["age", 1.1, -0.3, ["seen", 0.5, 1e-17, 2.0]], 0.25]
