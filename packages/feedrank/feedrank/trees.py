"""Gradient-boosted trees: how a trained model is served, and how it becomes a graph that can be.

The graph is one node, TreeEnsembleRegressor with a target for each signal. Calibration is in its leaves and its base
values, and the logistic function is its post-transform, so nothing is left to be done beside it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import onnxruntime as untyped_runtime
from numpy.typing import NDArray

from feedrank import effects
from feedrank.features import FEATURES
from feedrank.model_file import UNCALIBRATED, ModelError, ModelFile
from feedrank.signals import PREDICTED

onnxruntime = cast("Any", untyped_runtime)

INPUT, OUTPUT = "features", "probabilities"
"""Names of the graph's only input and output."""


class Trees:
    """The `Model` of a file. `name` says in errors where it came from."""

    def __init__(self, name: str, file: ModelFile) -> None:
        """Raises ModelError where the runtime does not take the graph, or the graph is of another shape."""
        self._session = _session(name, file.graph)
        self._neutral = file.neutral
        self.version = file.version
        self.trained_at_ms = file.trained_at_ms

    def predict(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, 5): the probability of each signal of PREDICTED, for a matrix of features."""
        return self._session.run([OUTPUT], {INPUT: matrix})[0]

    def effects(self, rows: NDArray[np.float32], weights: NDArray[np.floating]) -> NDArray[np.float32]:
        """(k, F): by how much each feature moved each score; see `effects.by_substitution`."""
        return effects.by_substitution(self.predict, self._neutral, rows, weights)


def _session(name: str, graph: bytes) -> Any:
    """A session that runs in the calling thread alone: a request has one core, and batches are small."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4  # what goes wrong is raised
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's own errors have no common base but this
        raise ModelError(f"{name}: the runtime does not take the graph: {error}") from error
    shapes = [(node.name, node.shape[1:]) for node in (*session.get_inputs(), *session.get_outputs())]
    if shapes != [(INPUT, [len(FEATURES)]), (OUTPUT, [len(PREDICTED)])]:
        raise ModelError(f"{name}: the graph takes and gives {shapes}, not {INPUT} and {OUTPUT}")
    return session


class Booster(Protocol):
    """As much of `lightgbm.Booster` as is needed here."""

    def dump_model(self) -> dict[str, Any]:
        """The model as nested dictionaries."""
        ...


def from_lightgbm(boosters: Sequence[Booster], calibration: Sequence[tuple[float, float]] = UNCALIBRATED) -> bytes:
    """The ONNX model of a binary booster for each signal of PREDICTED, each trained on matrices of FEATURES.

    Predicts what the boosters predict, but that their raw scores are multiplied by the slope and increased by the
    intercept of their signal. Raises ModelError for boosters of another kind. Needs the extra `train`.
    """
    from onnx import TensorProto, helper

    columns = _Columns()
    for target, (booster, (slope, _)) in enumerate(zip(boosters, calibration, strict=True)):
        for tree in _trees(booster.dump_model()):
            columns.add(tree, target, slope)
    attributes: Any = columns.attributes()
    node = helper.make_node(
        "TreeEnsembleRegressor",
        [INPUT],
        [OUTPUT],
        domain="ai.onnx.ml",
        n_targets=len(boosters),
        base_values=[intercept for _, intercept in calibration],
        post_transform="LOGISTIC",
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        "feedrank",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, len(FEATURES)])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [None, len(boosters)])],
    )
    opsets = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def _trees(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trees of a dumped booster. Raises ModelError where the sum of their leaves is not its log odds."""
    if dump.get("objective") != "binary sigmoid:1" or dump.get("average_output"):
        raise ModelError(f"a booster is of objective {dump.get('objective')!r}, not of 'binary sigmoid:1'")
    if dump["max_feature_idx"] + 1 != len(FEATURES):
        raise ModelError(f"a booster was trained on {dump['max_feature_idx'] + 1} features, not on {len(FEATURES)}")
    return [tree["tree_structure"] for tree in dump["tree_info"]]


def at_most(threshold: float) -> float:
    """The largest float of 4 bytes that is not above a threshold: no such float lies between the two."""
    rounded = np.float32(threshold)
    if not math.isfinite(rounded):
        return math.copysign(float(np.finfo(np.float32).max), threshold)
    return float(rounded if float(rounded) <= threshold else np.nextafter(rounded, np.float32(-np.inf)))


class _Node(NamedTuple):
    """One node, as columns want it; a leaf has the mode LEAF."""

    mode: str
    feature: int
    threshold: float
    left: int
    right: int


class _Columns:
    """The attributes of TreeEnsembleRegressor: every node of every tree, as parallel lists."""

    def __init__(self) -> None:
        self._nodes: list[tuple[int, int, _Node]] = []
        self._leaves: list[tuple[int, int, int, float]] = []
        self._trees = 0

    def add(self, root: Mapping[str, Any], target: int, slope: float) -> None:
        """Add a tree as LightGBM dumps it, its leaves multiplied by `slope`."""
        tree, numbered = self._trees, list(_walk(root))
        self._trees += 1
        number = {id(node): place for place, node in enumerate(numbered)}
        for place, node in enumerate(numbered):
            if "split_feature" in node:
                if node["decision_type"] != "<=" or node["missing_type"] == "Zero":
                    raise ModelError(f"a booster decides by {node['decision_type']}, missing {node['missing_type']}")
                children = number[id(node["left_child"])], number[id(node["right_child"])]
                split = _Node("BRANCH_LEQ", node["split_feature"], at_most(node["threshold"]), *children)
                self._nodes.append((tree, place, split))
            elif "leaf_coeff" in node:
                raise ModelError("a booster has linear trees")
            else:
                self._nodes.append((tree, place, _Node("LEAF", 0, 0.0, 0, 0)))
                self._leaves.append((tree, place, target, node["leaf_value"] * slope))

    def attributes(self) -> dict[str, list[Any]]:
        """By the names that ONNX gives them."""
        trees, places, nodes = zip(*self._nodes, strict=True)
        of_leaf, place_of_leaf, targets, weights = zip(*self._leaves, strict=True)
        return {
            "nodes_treeids": list(trees),
            "nodes_nodeids": list(places),
            "nodes_modes": [node.mode for node in nodes],
            "nodes_featureids": [node.feature for node in nodes],
            "nodes_values": [node.threshold for node in nodes],
            "nodes_truenodeids": [node.left for node in nodes],
            "nodes_falsenodeids": [node.right for node in nodes],
            "nodes_missing_value_tracks_true": [0] * len(nodes),
            "target_treeids": list(of_leaf),
            "target_nodeids": list(place_of_leaf),
            "target_ids": list(targets),
            "target_weights": list(weights),
        }


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A node and all below it, parents first, left before right."""
    yield node
    if "split_feature" in node:
        yield from _walk(node["left_child"])
        yield from _walk(node["right_child"])
