"""PgBouncer in transaction mode with two sessions, between PostgreSQL and four processes of one service: HAND-21."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import limits
import pytest
from devmesh.mesh import Mesh
from devmesh.servers import Servers
from feed_api import FeedApi
from ledger import Ledger
from outages import killed
from polling import until
from replicas import replicas, started
from settling import settled
from stored_keys import StoredKeys
from walks import each

from tests.servers.pgbouncer import PgBouncer

pytestmark = [pytest.mark.integration, pytest.mark.real]

SESSIONS = 2
PROCESSES = 4
RESTARTS = 3
WRITERS = 8
RETRYABLE = {503, 504}
SETTINGS = {
    **limits.SETTINGS,
    # Who does not hear of a new event finds it long after these tests are over.
    "FEED_OUTBOX_POLL_SECONDS": "900",
    # Whoever finds both sessions busy waits, as for a lock, and is not shed.
    "FEED_POSTGRES_ACQUIRE_SECONDS": "5",
}


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Generator[Mesh]:
    """A mesh behind the pooler."""
    servers = Servers(pooler=partial(PgBouncer, pool_size=SESSIONS))
    with Mesh(SETTINGS, directory=tmp_path_factory.mktemp("pooled"), servers=servers) as mesh:
        yield mesh


@pytest.fixture
async def api(mesh: Mesh, tmp_path: Path) -> AsyncGenerator[FeedApi]:
    """A gateway that asks four processes of `post` in turn, and repeats what may be repeated."""
    async with AsyncExitStack() as stack:
        posts = await stack.enter_async_context(replicas(mesh, "post", PROCESSES - 1, tmp_path))
        targets = ",".join([mesh.addresses.grpc["post"], *(post.address for post in posts)])
        asking_all = {"FEED_POST_TARGET": f"ipv4:{targets}"}
        [gateway] = await stack.enter_async_context(replicas(mesh, "gateway", 1, tmp_path, settings=asking_all))
        await started(*posts, gateway)
        yield await stack.enter_async_context(FeedApi(f"http://{gateway.address}", patient=True))


@pytest.fixture
def answers(api: FeedApi) -> Counter[int]:
    """How often each status was answered, before anything was repeated."""
    seen: Counter[int] = Counter()

    async def note(response: httpx.Response) -> None:
        seen[response.status_code] += 1

    api.http.event_hooks["response"].append(note)
    return seen


async def test_hand_21_all_that_people_do_works_at_once(
    mesh: Mesh, api: FeedApi, answers: Counter[int], tmp_path: Path
) -> None:
    ledger = Ledger(api)
    people = await ledger.users("Person", 8)
    await each(people, lambda person: ledger.follow(person, *(other for other in people if other != person)))
    posts = [post for author in people for post in await ledger.posts_at_once(author, 5)]
    await ledger.delete(*posts[::4])
    await ledger.mute(people[0], people[1])
    await ledger.block(people[2], people[3])
    await ledger.unfollow(people[4], people[5])
    await each(people, lambda person: api.engage(person, next(p for p in posts if p not in posts[::4]), "like"))
    await settled(mesh)
    async with StoredKeys(mesh.addresses.redis) as stored:
        for person in people:
            await ledger.check(person, 50, 7)
            await ledger.check_cold(stored, person, 20)
    assert {status // 100 for status in answers} == {2}, answers
    assert complaints(mesh, tmp_path) == []


async def test_hand_21_a_restart_of_the_pooler_under_load_costs_a_retry_and_loses_nothing(
    mesh: Mesh, api: FeedApi, answers: Counter[int]
) -> None:
    ledger = Ledger(api)
    people = await ledger.users("Person", WRITERS)
    await each(people, lambda person: ledger.follow(person, *(other for other in people if other != person)))
    await each(people, api.feed)
    async with writing(ledger, people, api) as written:
        for _ in range(RESTARTS):
            await killed(mesh, "pooler")
            await more(written, 30)
    await settled(mesh)
    assert set(answers) - RETRYABLE <= {200, 201, 204}, answers
    async with StoredKeys(mesh.addresses.redis) as stored:
        for person in people:
            await ledger.check(person, 50)
            await ledger.check_cold(stored, person, 50)


@asynccontextmanager
async def writing(ledger: Ledger, people: list[int], api: FeedApi) -> AsyncGenerator[list[int]]:
    """Everybody posts and reads again and again within the block; the ids of what was acknowledged."""
    acknowledged: list[int] = []
    enough = asyncio.Event()

    async def write(person: int) -> None:
        while not enough.is_set():
            acknowledged.append(await ledger.post(person))
            await api.feed(person, limit="5")

    async with asyncio.TaskGroup() as tasks:
        for person in people:
            tasks.create_task(write(person))
        try:
            yield acknowledged
        finally:
            enough.set()


async def more(written: list[int], count: int) -> None:
    """Return when so many more posts are acknowledged."""
    enough = len(written) + count

    async def reached() -> bool:
        return len(written) >= enough

    await until(reached, f"{count} more posts")


def complaints(mesh: Mesh, directory: Path) -> list[str]:
    """What processes have said about statements that a session did not know, or knew already."""
    said = itertools.chain(
        *(mesh.log(process).splitlines() for process in ("post", "graph", "post-relay", "graph-relay", "postgres")),
        *(log.read_text().splitlines() for log in directory.glob("*.log")),
    )
    return [line for line in said if "prepared statement" in line]
