"""Objects are such as the API server takes: strictly, for Kubernetes 1.32, and custom resources as their models say.

What knows the schemas comes with `make tools`, and is imported when it is used: `make test` looks at this module without.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from tests.k8s.checks.objects import Object, Problem, Tree, canonical, where

KUBERNETES = "1.32"


@cache
def custom_kinds() -> dict[tuple[str, str], type[BaseModel]]:
    """The custom resources that a tree may have, with their models."""
    from cloudcoil.models.keda import v1alpha1 as keda
    from cloudcoil.models.prometheus_operator import v1 as prometheus_operator

    return {
        ("keda.sh/v1alpha1", "ScaledObject"): keda.ScaledObject,
        ("keda.sh/v1alpha1", "TriggerAuthentication"): keda.TriggerAuthentication,
        ("monitoring.coreos.com/v1", "PodMonitor"): prometheus_operator.PodMonitor,
        ("monitoring.coreos.com/v1", "ServiceMonitor"): prometheus_operator.ServiceMonitor,
        ("monitoring.coreos.com/v1", "PrometheusRule"): prometheus_operator.PrometheusRule,
    }


def schemas(tree: Tree) -> Iterator[Problem]:
    """Every object has a kind that is known, the fields of its kind and no others, and values of their types."""
    for thing in tree.objects:
        model = custom_kinds().get((thing["apiVersion"], thing["kind"]))
        for what in _custom(model, thing) if model else _built_in(canonical(thing)):
            yield Problem(where(thing), what)


@cache  # most objects are in several trees, and each takes a tenth of a second
def _built_in(text: str) -> tuple[str, ...]:
    import kubernetes_validate

    try:
        kubernetes_validate.validate(json.loads(text), KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return (f"{'.'.join(str(step) for step in error.path)}: {error.message}",)
    except kubernetes_validate.SchemaNotFoundError as error:
        return (error.message,)
    return ()


def _custom(model: type[BaseModel], thing: Object) -> Iterator[str]:
    try:
        read = model.model_validate(thing)
    except ValidationError as error:
        for problem in error.errors():
            yield f"{'.'.join(str(step) for step in problem['loc'])}: {problem['msg']}"
        return
    # The models pass over what they do not know, as the API server does; here it is misspelt.
    yield from _lost(thing, read.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _lost(written: Any, read: Any, path: str = "") -> Iterator[str]:
    if isinstance(written, Mapping) and isinstance(read, Mapping):
        for key, value in cast("Mapping[str, Any]", written).items():
            if key in read:
                yield from _lost(value, read[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}".removeprefix(".") + ": no such field"
    elif isinstance(written, list) and isinstance(read, list):
        for index, pair in enumerate(zip(cast("list[Any]", written), cast("list[Any]", read), strict=True)):
            yield from _lost(*pair, f"{path}[{index}]")


CHECKS = (schemas,)
