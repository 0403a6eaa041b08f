"""`feedctl verify`: walks of sampled viewers against the oracle."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import httpx

from feedctl.oracle import Oracle, faults
from feedctl.targets import Targets, TargetsError
from feedctl.walk import WalkError, walk_home_timeline


@dataclass(frozen=True)
class Verdict:
    """What one viewer's walk showed."""

    viewer_id: int
    limit: int
    posts: int
    faults: Sequence[str]


async def verify(targets: Targets, *, sample: int, limits: Sequence[int], seed: int) -> AsyncGenerator[Verdict]:
    """Walk the timelines of `sample` viewers, each with every page size of `limits`, and compare with the oracle."""
    if not {"graph", "post"} <= targets.postgres.keys():
        raise TargetsError("verifying needs the PostgreSQL addresses of `graph` and `post`")
    oracle = Oracle(graph_dsn=targets.postgres["graph"], post_dsn=targets.postgres["post"])
    async with oracle, httpx.AsyncClient(base_url=targets.gateway, timeout=30) as gateway:
        for viewer_id in await oracle.viewers(sample, seed):
            for limit in limits:
                yield await _verify_one(oracle, gateway, viewer_id, limit)


async def _verify_one(oracle: Oracle, gateway: httpx.AsyncClient, viewer_id: int, limit: int) -> Verdict:
    try:
        walk = await walk_home_timeline(gateway, viewer_id, limit)
    except WalkError as error:
        return Verdict(viewer_id, limit, 0, [str(error)])
    expected = await oracle.home_timeline(viewer_id)
    return Verdict(viewer_id, limit, len(expected), faults(expected, walk))
