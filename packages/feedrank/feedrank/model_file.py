"""The file of a trained model: a zip of the graph that ONNX Runtime runs and of what it means.

- `model.json`: `format`, `version`, `trained_at_ms`, `features`, `signals`, `neutral` (a value for each feature),
  `calibration` (slope and intercept for each signal; they are in the graph already) and `metrics` (what training found out)
- `model.onnx`: the graph, from `features` (float, n × F) to `probabilities` (float, n × 5)

Loading one runs no code of it: there is no pickle in it. The same model makes the same bytes.
"""

import hashlib
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from feedrank.features import FEATURES, NEUTRAL
from feedrank.signals import PREDICTED

FORMAT = 1
"""Of files that this module writes, and the only one that it reads."""
LARGEST_MEMBER = 64 << 20
"""Bytes; a member that is larger is not read."""

UNCALIBRATED = ((1.0, 0.0),) * len(PREDICTED)
"""The slopes and intercepts that change nothing."""

_MEANING, _GRAPH = "model.json", "model.onnx"


class ModelError(Exception):
    """A model that cannot be used, and why, in words for whoever chose it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """What a file says."""

    version: str
    """When it was trained, in UTC, and the beginning of the hash of its graph: `20260131T235959Z-1a2b3c4d`."""
    trained_at_ms: int
    """Unix milliseconds."""
    neutral: NDArray[np.float32]
    """(F,): what each feature is where it says nothing, for `effects`."""
    calibration: Sequence[tuple[float, float]]
    """Slope and intercept of each signal of PREDICTED: its log odds are slope times what the trees say, plus intercept."""
    metrics: Mapping[str, Any]
    """What training found out; whatever JSON holds."""
    graph: bytes
    """The ONNX model."""


def write(
    path: Path,
    graph: bytes,
    *,
    trained_at_ms: int,
    neutral: NDArray[np.floating] = NEUTRAL,
    calibration: Sequence[tuple[float, float]] = UNCALIBRATED,
    metrics: Mapping[str, Any] | None = None,
) -> str:
    """Write a model of this program's FEATURES and PREDICTED, in one step for whoever reads it. Returns its version."""
    trained_at = datetime.fromtimestamp(trained_at_ms / 1_000, UTC)
    version = f"{trained_at:%Y%m%dT%H%M%SZ}-{_short_hash(graph)}"
    meaning = {
        "format": FORMAT,
        "version": version,
        "trained_at_ms": trained_at_ms,
        "features": FEATURES,
        "signals": PREDICTED,
        "neutral": [float(value) for value in neutral],
        "calibration": [[float(slope), float(intercept)] for slope, intercept in calibration],
        "metrics": dict(metrics or {}),
    }
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w") as archive:
        for name, content in ((_MEANING, json.dumps(meaning, indent=2).encode()), (_GRAPH, graph)):
            archive.writestr(zipfile.ZipInfo(name, trained_at.timetuple()[:6]), content, zipfile.ZIP_DEFLATED)
    unfinished.replace(path)
    return version


def read(path: Path) -> ModelFile:
    """What a file says. Raises ModelError where it is not there, is malformed, or is not meant for this program."""
    meaning, graph = _members(path)
    if (found := meaning.get("format")) != FORMAT:
        raise ModelError(f"{path}: the file is of format {found!r}; this program reads format {FORMAT}")
    _agree(path, "features", meaning.get("features"), FEATURES)
    _agree(path, "signals", meaning.get("signals"), PREDICTED)
    try:
        file = ModelFile(
            version=str(meaning["version"]),
            trained_at_ms=int(meaning["trained_at_ms"]),
            neutral=np.array(meaning["neutral"], np.float32),
            calibration=[(float(slope), float(intercept)) for slope, intercept in meaning["calibration"]],
            metrics=dict(meaning["metrics"]),
            graph=graph,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: {_MEANING} is malformed: {error!r}") from error
    if file.neutral.shape != NEUTRAL.shape or not np.isfinite(file.neutral).all():
        raise ModelError(f"{path}: {_MEANING} is malformed: 'neutral' is not one number for each feature")
    if not file.version.endswith(f"-{_short_hash(graph)}"):
        raise ModelError(f"{path}: the graph is not the one that version {file.version} was written with")
    return file


def _members(path: Path) -> tuple[dict[str, Any], bytes]:
    """The meaning and the graph, as they lie in the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in (_MEANING, _GRAPH):
                if archive.getinfo(name).file_size > LARGEST_MEMBER:
                    raise ModelError(f"{path}: {name} is larger than {LARGEST_MEMBER} bytes")
            meaning, graph = json.loads(archive.read(_MEANING)), archive.read(_GRAPH)
    except OSError as error:
        raise ModelError(f"{path}: the model cannot be read: {error.strerror or error}") from error
    except KeyError as error:
        raise ModelError(f"{path}: this is no model: {error.args[0]}") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        raise ModelError(f"{path}: this is no model, or a damaged one: {error}") from error
    if not isinstance(meaning, dict):
        raise ModelError(f"{path}: {_MEANING} is malformed: it is no object")
    return cast("dict[str, Any]", meaning), graph


def _agree(path: Path, what: str, theirs: object, ours: Sequence[str]) -> None:
    """Refuse a model whose columns are not ours, and name those that differ."""
    if theirs == list(ours):
        return
    if not isinstance(theirs, list):
        raise ModelError(f"{path}: {_MEANING} is malformed: {what!r} is no list")
    names = [str(name) for name in cast("list[object]", theirs)]
    differences = [
        *(f"{name!r} is unknown here" for name in names if name not in ours),
        *(f"{name!r} is unknown to it" for name in ours if name not in names),
    ] or [f"{their!r} stands where {our!r} is here" for their, our in zip(names, ours, strict=False) if their != our]
    raise ModelError(f"{path}: the model was trained on other {what}: {', '.join(differences) or 'one is named twice'}")


def _short_hash(graph: bytes) -> str:
    return hashlib.sha256(graph).hexdigest()[:8]
