"""Checks of rendered manifests: each is given a tree and tells its problems."""

from tests.k8s.checks import addresses, images, pod_security, probes, references, resources, rollouts, schemas, settings
from tests.k8s.checks.objects import Check

CHECKS: tuple[Check, ...] = (
    *schemas.CHECKS,
    *references.CHECKS,
    *settings.CHECKS,
    *addresses.CHECKS,
    *pod_security.CHECKS,
    *resources.CHECKS,
    *probes.CHECKS,
    *rollouts.CHECKS,
    *images.CHECKS,
)
"""Those that hold for every tree that is applied to a cluster."""
