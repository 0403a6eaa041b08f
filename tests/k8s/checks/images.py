"""One version of everything, named."""

from collections.abc import Iterator

from tests.k8s.checks.objects import Problem, Tree, is_our_image
from tests.k8s.checks.rollouts import VERSION


def versions(tree: Tree) -> Iterator[Problem]:
    """Images have a tag that means one thing, and ours all the same, which is that of the label."""
    tags: dict[str, str] = {}
    for workload in tree.workloads:
        for container in workload.all_containers:
            place, image = f"{workload.where} {container['name']}", container["image"]
            tag = image.rpartition("/")[2].partition(":")[2]
            if tag in ("", "latest") and "@" not in image:
                yield Problem(place, f"runs {image}, whatever that is at the time")
            if is_our_image(image):
                tags[place] = tag
                if workload.labels.get(VERSION) != tag:
                    yield Problem(place, f"runs {image}, and says that it is {workload.labels.get(VERSION)}")
            if container.get("imagePullPolicy") != "IfNotPresent":
                yield Problem(place, "asks a registry for what the node has already")
    if len(set(tags.values())) > 1:
        yield Problem("images", f"are of several versions: {sorted(set(tags.values()))}")


CHECKS = (versions,)
