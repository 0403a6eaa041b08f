"""A small community needs neither fan-out, nor relays, nor Kafka: with a threshold of 0 everything is pulled."""

import asyncio
from pathlib import Path

import pytest
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed_api import FeedApi
from timelines import posts_in_turn, users
from walks import differences, each

pytestmark = pytest.mark.integration

ALONE = [process for process in PROCESSES if process.role is None and process.name != "fanout"]


async def test_with_a_threshold_of_0_feeds_are_right_without_fan_out_and_kafka(tmp_path: Path) -> None:
    with Mesh({"FEED_CELEBRITY_THRESHOLD": "0"}, directory=tmp_path, processes=ALONE) as mesh:
        await asyncio.to_thread(mesh.kill, "kafka")
        async with FeedApi(mesh.addresses.gateway) as api:
            people = await users(api, "Person", 4)
            await each(people, lambda one: api.follow_many(one, [other for other in people if other != one]))
            written = await posts_in_turn(api, people, 6)
            for limit in (50, 7):
                assert await differences(mesh, api, people, limit) == []
            await api.delete_post(people[-1], written[0])
            await api.unfollow(people[0], people[1])
            await api.create_post(people[2], "And one more")
            for limit in (50, 7):
                assert await differences(mesh, api, people, limit) == []
