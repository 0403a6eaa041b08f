"""What it costs to push a post and to pull it, by the piece: processor time of all who take part, ours and the stores'.

`docs/economics.md` makes sums of these figures, and `feedctl economics` has them as defaults.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import uvloop
from devmesh.backends.valkey import Valkey
from devmesh.mesh import Mesh
from devmesh.processes import PROCESSES
from feed.graph.v1 import graph_pb2, graph_pb2_grpc
from feed.post.v1 import post_pb2, post_pb2_grpc
from feedkit import key_scripts, keys, redis
from feedkit.channel import connect
from feedkit.redis import Redis, RedisSettings
from timeline_service.home_store import ListStore

from tests.bench.results import Result

TIMELINES, LENGTH, BATCH, HISTORY_BATCH = 1000, 800, 200, 10
RECENTS, AUTHOR = 200, 1
FOLLOWERS = 100_000
FIRST_ID, APART = 2**60, 2**30
LIFE_MS = 28 * 86_400_000
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def run(*, runs: int, seconds: float) -> list[Result]:
    """Measure; microseconds of processor time for each piece."""
    with Valkey() as server:
        results = uvloop.run(_in_redis(server, runs, seconds))
    owners = [process for process in PROCESSES if process.name in {"graph", "post"}]
    with tempfile.TemporaryDirectory() as directory, Mesh(directory=Path(directory), processes=owners) as mesh:
        return results + asyncio.run(_of_the_truth(mesh, runs, seconds))


# --- Redis, and who asks it -----------------------------------------------------------------------------------------------


async def _in_redis(server: Valkey, runs: int, seconds: float) -> list[Result]:
    settings = RedisSettings.model_validate({"redis_url": server.url, "redis_timeout_seconds": 30})
    async with redis.connect(settings) as client:
        await _prepare(client)
        pushes, histories, lists = (
            _pushes(client),
            _histories(client),
            ListStore(client, keys.recents, cache_ms=LIFE_MS),
        )

        async def push() -> int:
            return await next(pushes)

        async def history() -> int:
            return await next(histories)

        async def list_alone() -> int:
            return len(await lists.get([AUTHOR]))

        async def cost(piece: Callable[[], Awaitable[int]]) -> list[float]:
            return [await _microseconds(piece, lambda: _redis_seconds(client), seconds) for _ in range(runs)]

        return [
            Result.of("push.delivery.cpu_us", await cost(push), unit="us", goal="lower"),
            Result.of("push.history.cpu_us", await cost(history), unit="us", goal="lower"),
            Result.of("pull.recents_list.cpu_us", await cost(list_alone), unit="us", goal="lower"),
        ]


async def _prepare(client: Redis) -> None:
    """Full timelines of many authors, and the recents of one."""
    trailer = keys.encode_trailer(keys.Trailer(FIRST_ID - 1, FIRST_ID - 1, key_scripts.new_epoch()))
    entries = keys.encode_entries([(FIRST_ID + place * APART, 2 + place) for place in range(LENGTH)])
    for viewer in range(TIMELINES):
        await client.run(("SET", keys.timeline(viewer), entries + trailer, "PX", LIFE_MS))
    posts = [FIRST_ID + place * APART for place in range(RECENTS, 0, -1)]
    await client.run(("SET", keys.recents(AUTHOR), keys.value(keys.encode_post_list(posts, FIRST_ID))))


def _pushes(client: Redis) -> Iterator[Awaitable[int]]:
    """Post after post to all timelines, each of which is trimmed."""
    place = LENGTH
    while True:
        entry = keys.encode_entries([(FIRST_ID + place * APART, AUTHOR)])
        for start in range(0, TIMELINES, BATCH):
            batch = range(start, start + BATCH)
            yield _count(client, [key_scripts.push(viewer, entry, LENGTH) for viewer in batch])
        place += 1


def _histories(client: Redis) -> Iterator[Awaitable[int]]:
    """All that an author wrote, to timelines that are full. A tenth of it is as new as what they hold."""
    newest = FIRST_ID + LENGTH * APART
    history = keys.encode_entries([(newest - 10 * age * APART - 1, AUTHOR) for age in range(LENGTH, 0, -1)])
    while True:
        for start in range(0, TIMELINES, HISTORY_BATCH):
            epoch, batch = key_scripts.new_epoch(), range(start, start + HISTORY_BATCH)
            yield _count(client, [key_scripts.push_history(viewer, epoch, 1, history, LENGTH) for viewer in batch])


async def _count(client: Redis, commands: list[redis.Command]) -> int:
    return sum(await client.run(*commands))


async def _redis_seconds(client: Redis) -> float:
    [info] = await client.run(("INFO", "cpu"))
    facts = dict(line.split(b":") for line in info.splitlines() if b":" in line)
    return float(facts[b"used_cpu_user"]) + float(facts[b"used_cpu_sys"])


# --- the services that own the truth, and PostgreSQL ----------------------------------------------------------------------


async def _of_the_truth(mesh: Mesh, runs: int, seconds: float) -> list[Result]:
    await _write_truth(mesh)
    pids = [mesh.addresses.pids[name] for name in ("graph", "post", "postgres")]
    addresses, names = mesh.addresses.grpc, {"graph": graph_pb2, "post": post_pb2}
    services = {name: module.DESCRIPTOR.services_by_name[f"{name.title()}Service"] for name, module in names.items()}
    async with (
        connect(addresses["graph"], services["graph"], "graph") as to_graph,
        connect(addresses["post"], services["post"], "post") as to_post,
    ):
        graph, post = graph_pb2_grpc.GraphServiceStub(to_graph), post_pb2_grpc.PostServiceStub(to_post)

        async def followers() -> int:
            request = graph_pb2.StreamActiveFollowersRequest(user_id=AUTHOR, active_days=30)
            return sum([len(page.follower_ids) async for page in graph.StreamActiveFollowers(request)])

        async def recent() -> int:
            request = post_pb2.ListRecentByAuthorsRequest(author_ids=[AUTHOR], limit=RECENTS + 1)
            assert len((await post.ListRecentByAuthors(request)).post_ids) == RECENTS + 1
            return 1

        async def theirs() -> float:
            return _seconds_of(pids)

        async def cost(piece: Callable[[], Awaitable[int]]) -> list[float]:
            return [await _microseconds(piece, theirs, seconds) for _ in range(runs)]

        return [
            Result.of("push.follower.cpu_us", await cost(followers), unit="us", goal="lower"),
            Result.of("pull.fill.cpu_us", await cost(recent), unit="us", goal="lower"),
        ]


async def _write_truth(mesh: Mesh) -> None:
    """An author with many followers, two of three of them active, and with more posts than recents hold."""
    graph, post = [await asyncpg.connect(mesh.addresses.postgres[name]) for name in ("graph", "post")]
    followers, today = range(AUTHOR + 1, AUTHOR + 1 + FOLLOWERS), datetime.now(UTC).date()
    try:
        await graph.copy_records_to_table(
            "follows", records=[(one, AUTHOR) for one in followers], columns=("follower_id", "followee_id")
        )
        await graph.copy_records_to_table(
            "activity", records=[(one, today) for one in followers if one % 3], columns=("user_id", "seen_on")
        )
        await post.copy_records_to_table(
            "posts",
            records=[(FIRST_ID + place * APART, AUTHOR, "A post", "[]") for place in range(5 * RECENTS)],
            columns=("id", "author_id", "content", "media"),
        )
        for database in (graph, post):
            await database.execute("VACUUM ANALYZE")
    finally:
        await graph.close()
        await post.close()


def _seconds_of(pids: list[int]) -> float:
    """The processor time of some processes and of all that they have started, those that have ended included."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        pid = int(directory.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(int(field) for field in fields[11:15])
    family = list(pids)
    for pid in family:
        family += parents.get(pid, [])
    return sum(ticks[pid] for pid in family) / TICKS_A_SECOND


# --- both -----------------------------------------------------------------------------------------------------------------


async def _microseconds(
    piece: Callable[[], Awaitable[int]], others: Callable[[], Awaitable[float]], seconds: float
) -> float:
    """Processor time, ours and the others', for each of the pieces that a call says it has done."""
    await piece()
    theirs, ours, began, pieces = await others(), time.process_time(), time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        pieces += await piece()
    return (time.process_time() - ours + await others() - theirs) / pieces * 1e6
