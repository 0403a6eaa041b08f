"""The file of a trained model: JSON, so that loading it runs no code of it, and anybody can read it.

| member | holds |
|---|---|
| `format` | 1 |
| `version` | when it was trained, in UTC, and a hash of what it predicts: `20260131T235959Z-1a2b3c4d` |
| `trained_at_ms` | Unix milliseconds |
| `features`, `signals` | the names of what goes in and of what comes out |
| `neutral` | for each feature: what it is where it says nothing |
| `calibration` | for each signal: slope and intercept of its log odds over the sum of its trees |
| `metrics` | what training found out |
| `trees` | for each signal: trees; a tree is a number, or `[feature, threshold, low, high]` with two trees |
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from feedrank.features import FEATURES, NEUTRAL
from feedrank.signals import PREDICTED
from feedrank.trees import MOST_LEAVES, Forest, Split, Tree, leaves

FORMAT = 1
"""Of files that this module writes, and the only one that it reads."""
LARGEST = 64 << 20
"""Bytes; a larger file is not read."""

UNCALIBRATED = ((1.0, 0.0),) * len(PREDICTED)
"""The slopes and intercepts that change nothing."""


class ModelError(Exception):
    """A model that cannot be used, and why, in words for whoever chose it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """What a file says."""

    version: str
    trained_at_ms: int
    """Unix milliseconds."""
    neutral: NDArray[np.float32]
    """(F,): what each feature is where it says nothing."""
    calibration: Sequence[tuple[float, float]]
    """For each signal of PREDICTED: slope and intercept of its log odds over the sum of its trees."""
    metrics: Mapping[str, Any]
    """What training found out; whatever JSON holds."""
    forest: Forest


def write(
    path: Path,
    forest: Forest,
    *,
    trained_at_ms: int,
    neutral: NDArray[np.floating] = NEUTRAL,
    calibration: Sequence[tuple[float, float]] = UNCALIBRATED,
    metrics: Mapping[str, Any] | None = None,
) -> str:
    """Write a model of this program's FEATURES and PREDICTED, in one step for whoever reads it. Returns its version.

    Raises ValueError where a number is not finite, in `metrics` too.
    """
    predicts = {
        "neutral": {name: float(value) for name, value in zip(FEATURES, neutral, strict=True)},
        "calibration": {name: [float(a), float(b)] for name, (a, b) in zip(PREDICTED, calibration, strict=True)},
        "trees": {signal: list(forest[signal]) for signal in PREDICTED},
    }
    trained_at = datetime.fromtimestamp(trained_at_ms / 1_000, UTC)
    version = f"{trained_at:%Y%m%dT%H%M%SZ}-{_hash(predicts)}"
    members = {
        "format": FORMAT,
        "version": version,
        "trained_at_ms": trained_at_ms,
        "features": FEATURES,
        "signals": PREDICTED,
        "metrics": dict(metrics or {}),
        **predicts,
    }
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(member, allow_nan=False)}" for name, member in members.items())
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(f"{{\n{lines}\n}}\n", "ascii")
    unfinished.replace(path)
    return version


def read(path: Path) -> ModelFile:
    """What a file says. Raises ModelError where it is not there, is malformed, or is not meant for this program."""
    members = _members(path)
    if "format" not in members:
        raise ModelError(f"{path}: the file is no model: it does not say which format it has")
    if (found := members["format"]) != FORMAT:
        raise ModelError(f"{path}: the file is of format {found!r}; this program reads format {FORMAT}")
    for what, ours in (("features", FEATURES), ("signals", PREDICTED)):
        if difference := _difference(members.get(what), ours):
            raise ModelError(f"{path}: the model has other {what}: {difference}")
    try:
        file = ModelFile(
            version=str(members["version"]),
            trained_at_ms=int(members["trained_at_ms"]),
            neutral=np.array([_number(members["neutral"][name]) for name in FEATURES], np.float32),
            calibration=[_pair(members["calibration"][name]) for name in PREDICTED],
            metrics=dict(members["metrics"]),
            forest={name: [_tree(tree) for tree in members["trees"][name]] for name in PREDICTED},
        )
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ModelError(f"{path}: the file is malformed: {error!r}") from error
    if not file.version.endswith(f"-{_hash({name: members[name] for name in ('neutral', 'calibration', 'trees')})}"):
        raise ModelError(f"{path}: what it predicts was changed since version {file.version} was written")
    return file


def _members(path: Path) -> dict[str, Any]:
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise ModelError(f"{path}: {size} bytes are too many for a model")
        members = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelError(f"{path}: the model cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: this is no model, or a damaged one: {error}") from error
    if not isinstance(members, dict):
        raise ModelError(f"{path}: this is no model")
    return cast("dict[str, Any]", members)


def _difference(theirs: object, ours: Sequence[str]) -> str | None:
    """In words, by name; None where both are the same in the same order."""
    if theirs == list(ours):
        return None
    if not isinstance(theirs, list):
        return "none are named"
    names = [str(name) for name in cast("list[object]", theirs)]
    differences = [
        *(f"{name!r} is unknown here" for name in names if name not in ours),
        *(f"{name!r} is unknown to it" for name in ours if name not in names),
    ]
    differences = differences or [
        f"{a!r} stands in the place of {b!r}" for a, b in zip(names, ours, strict=False) if a != b
    ]
    return ", ".join(differences) or "some are named twice"


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r} is no finite number")
    return float(value)


def _pair(value: Sequence[object]) -> tuple[float, float]:
    slope, intercept = value
    return _number(slope), _number(intercept)


def _tree(value: object) -> Tree:
    """A tree of JSON's lists and numbers."""
    tree = _branch(value)
    if (many := sum(1 for _ in leaves(tree))) > MOST_LEAVES:
        raise ValueError(f"a tree has {many} leaves, more than {MOST_LEAVES}")
    return tree


def _branch(value: object) -> Tree:
    if not isinstance(value, list):
        return _number(value)
    feature, threshold, low, high = cast("list[object]", value)
    if feature not in FEATURES:
        raise ValueError(f"a tree asks for {feature!r}")
    return Split(str(feature), _number(threshold), _branch(low), _branch(high))


def _hash(predicts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(predicts, sort_keys=True).encode()).hexdigest()[:8]
