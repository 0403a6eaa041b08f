"""Selectors of labels, as `k8s.io/apimachinery` evaluates them."""

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a LabelSelector (`matchLabels`, `matchExpressions`) selects what has these labels. An empty one does."""
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    expressions: list[Mapping[str, Any]] = selector.get("matchExpressions") or []
    return is_subset(wanted, labels) and all(_satisfies(labels, expression) for expression in expressions)


def is_subset(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether the labels have all these values: what the plain selector of a Service asks for."""
    return all(labels.get(key) == value for key, value in wanted.items())


def _satisfies(labels: Mapping[str, str], expression: Mapping[str, Any]) -> bool:
    key: str = expression["key"]
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case operator:
            raise ValueError(f"no operator of label selectors: {operator}")
