"""What home timelines of others were reported to have lost, kept or shown wrongly, and must not here.

Counts are scaled to the small limits of the shared mesh: a timeline holds 20 posts, and 4 followers make a celebrity.
"""

import asyncio
from collections.abc import Sequence

import grpc.aio
import pytest
from confluent_kafka import Consumer, TopicPartition
from devmesh.mesh import Mesh
from feed.fanout.v1 import fanout_pb2, fanout_pb2_grpc
from feed.hydrate.v1 import hydrate_pb2, hydrate_pb2_grpc
from feed_api import FeedApi
from feedkit import keys
from ledger import Ledger
from limits import LENGTH, REBUILD_PAUSE_SECONDS, THRESHOLD
from replicas import restart_every_process
from settling import settled
from stored_keys import StoredKeys
from timelines import until_standing, warmed
from walks import each

pytestmark = pytest.mark.integration

DAY_MS = 24 * 60 * 60 * 1000
RECONCILE = "feed.reconcile.v1"
FIRST_PAGE = 10


@pytest.fixture
def ledger(api: FeedApi) -> Ledger:
    return Ledger(api)


async def first_page(api: FeedApi, viewer: int) -> list[int]:
    """What a viewer sees first, ten posts at most."""
    return [int(item["id"]) for item in (await api.feed(viewer, limit=str(FIRST_PAGE)))["items"]]


async def celebrity(ledger: Ledger) -> int:
    """Somebody who has as many followers as it takes to be pulled."""
    [famous], fans = await ledger.users("Celebrity", 1), await ledger.users("Fan", THRESHOLD)
    await each(fans, lambda fan: ledger.follow(fan, famous))
    return famous


# --- HAND-01 -----------------------------------------------------------------------------------------------------------


def wishes(mesh: Mesh) -> int:
    """How many rebuilds and reconciles have ever been asked for; each reads a viewer's posts from PostgreSQL once."""
    consumer = Consumer({"bootstrap.servers": mesh.addresses.kafka, "group.id": "tests"})
    try:
        partitions = consumer.list_topics(RECONCILE, timeout=10).topics[RECONCILE].partitions
        marks = [consumer.get_watermark_offsets(TopicPartition(RECONCILE, number), timeout=10) for number in partitions]
    finally:
        consumer.close()
    return sum(high for _, high in marks)


async def returning_viewer(mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger) -> tuple[int, list[int]]:
    """A viewer whose timeline was walked and is gone, and the posts of the five whom they follow, newest first."""
    authors, [viewer] = await ledger.users("Author", 5), await ledger.users("Viewer", 1)
    await ledger.follow(viewer, *authors)
    written = await ledger.posts_in_turn(authors, 12)
    await warmed(mesh, api, stored, [viewer])
    await ledger.check(viewer, FIRST_PAGE)
    await asyncio.sleep(REBUILD_PAUSE_SECONDS)
    await stored.delete(keys.timeline(viewer))
    return viewer, written


async def test_hand_01_a_returning_viewer_finds_a_full_feed(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """Whose timeline had been dropped for inactivity found an empty feed. The very first read has to be a full page.

    60 posts instead of 200, three timelines' worth.
    """
    viewer, written = await returning_viewer(mesh, api, stored, ledger)
    assert await first_page(api, viewer) == written[:FIRST_PAGE]
    await until_standing(stored, [viewer])
    await settled(mesh)
    assert await stored.timeline_ids(viewer) == written[:LENGTH]
    await ledger.check(viewer, 50, 7)


async def test_hand_01_a_returning_viewer_finds_older_posts_where_the_newest_were_deleted(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """A rebuild took a fixed number of rows, all of which a filter then took away. Older ones have to fill the page.

    45 of 60 posts are deleted, more than twice what a rebuild reads.
    """
    viewer, written = await returning_viewer(mesh, api, stored, ledger)
    await ledger.delete(*written[:45])
    assert await first_page(api, viewer) == written[45:55]
    await until_standing(stored, [viewer])
    await settled(mesh)
    await asyncio.sleep(REBUILD_PAUSE_SECONDS)
    await stored.delete_viewer(viewer)
    assert await first_page(api, viewer) == written[45:55]
    await until_standing(stored, [viewer])
    await settled(mesh)
    assert await stored.timeline_ids(viewer) == written[45:]
    await ledger.check(viewer, 50, 7)


async def test_hand_01_fifty_first_reads_at_once_agree_and_cost_few_rebuilds(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """First reads at once must not differ, nor each have the timeline rebuilt."""
    viewer, written = await returning_viewer(mesh, api, stored, ledger)
    await settled(mesh)
    before = await asyncio.to_thread(wishes, mesh)
    pages = await asyncio.gather(*(first_page(api, viewer) for _ in range(50)))
    assert pages == [written[:FIRST_PAGE]] * 50
    await until_standing(stored, [viewer])
    await settled(mesh)
    assert 1 <= await asyncio.to_thread(wishes, mesh) - before <= 3


async def test_hand_01_who_follows_nobody_has_an_empty_feed_that_is_not_rebuilt(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """An empty feed is an answer like any other: no cursor, and nothing to be built again on each request."""
    [loner] = await ledger.users("Loner", 1)
    await settled(mesh)
    before = await asyncio.to_thread(wishes, mesh)
    for _ in range(10):
        assert await api.feed(loner) == {"items": [], "view": "latest", "notice": None, "insertions": []}
    await settled(mesh)
    assert await asyncio.to_thread(wishes, mesh) == before
    assert await stored.life_ms(keys.timeline(loner)) == -2


# --- HAND-02 -----------------------------------------------------------------------------------------------------------


async def test_hand_02_posts_of_an_unfollowed_author_leave_and_come_back_at_their_place(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """Delivered posts outlived an unfollow, or those of others went with them. Exactly the author's have to go, at once,
    from every page, of an ordinary author and of a celebrity; and a new follow has to bring them back in order.

    15 posts each instead of 30: more than twice what a timeline holds.
    """
    [viewer, ordinary, staying], famous = await ledger.users("Person", 3), await celebrity(ledger)
    await ledger.follow(viewer, ordinary, staying, famous)
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_in_turn([ordinary, staying, famous], 15)
    await settled(mesh)
    await ledger.check(viewer, 50, 7)
    cursor = (await api.feed(viewer, limit="10"))["nextCursor"]
    for leaving in (ordinary, famous):
        await ledger.unfollow(viewer, leaving)
        await ledger.check(viewer, 50, 7)
        await ledger.check_below(viewer, cursor, 10)
        await settled(mesh)
        await ledger.check(viewer, 50, 7)
        await ledger.check_below(viewer, cursor, 10)
    await ledger.check_cold(stored, viewer, 50, 7)
    await asyncio.sleep(REBUILD_PAUSE_SECONDS)
    await warmed(mesh, api, stored, [viewer])
    for returning in (ordinary, famous):
        await ledger.follow(viewer, returning)
        await settled(mesh)
        await ledger.check(viewer, 50, 7)
    await ledger.check_cold(stored, viewer, 50, 7)


# --- HAND-03 -----------------------------------------------------------------------------------------------------------


async def ids_by_author_page(api: FeedApi, viewer: int, author: int) -> list[int]:
    """What a viewer finds on an author's page."""
    page = await api.get(f"/api/users/{author}/posts", viewer=viewer, limit="50")
    return [int(item["id"]) for item in page["items"]]


@pytest.mark.timeout(600)
async def test_hand_03_blocked_and_muted_authors_show_on_no_path_even_after_a_restart(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """A block left posts that came by another way, and old mutes ended with a release. Nothing of such an author may show
    on any path: warm, cold, by a cursor of before, from the next read on, and after everything was started anew. The end
    of a mute brings all back once; the end of a block brings nothing back before a new follow does.
    """
    [viewer, staying, blocked, muted], famous = await ledger.users("Person", 4), await celebrity(ledger)
    await ledger.follow(viewer, staying, blocked, muted, famous)
    await ledger.follow(blocked, viewer)
    await warmed(mesh, api, stored, [viewer, blocked])
    written = await ledger.posts_in_turn([viewer, staying, blocked, muted, famous], 10)
    await settled(mesh)
    await ledger.check(viewer, 50, 7)
    cursor = (await api.feed(viewer, limit="10"))["nextCursor"]

    async def check() -> None:
        for reader in (viewer, blocked):
            await ledger.check(reader, 50, 7)
        await ledger.check_below(viewer, cursor, 10)

    async def check_other_paths() -> None:
        # Whom one mutes one may still look up.
        theirs = [post for post in written if ledger.author_of(post) == muted]
        assert await ids_by_author_page(api, viewer, muted) == theirs
        for one, other in ((viewer, blocked), (blocked, viewer), (viewer, famous)):
            hidden = next(post for post in written if ledger.author_of(post) == other)
            assert await ids_by_author_page(api, one, other) == []
            assert (await api.call("GET", f"/api/posts/{hidden}", viewer=one)).status_code == 404
            assert await api.get("/api/posts", viewer=one, ids=str(hidden)) == {"items": []}

    await ledger.block(viewer, blocked)
    await ledger.block(viewer, famous)
    await ledger.mute(viewer, muted)
    await check()
    await check_other_paths()
    await settled(mesh)
    await check()
    for reader in (viewer, blocked):
        await ledger.check_cold(stored, reader, 50, 7)
    await restart_every_process(mesh)
    await check()
    await check_other_paths()
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_in_turn([blocked, muted, famous, staying], 2)
    await settled(mesh)
    await check()

    await ledger.unblock(viewer, blocked)
    await ledger.unblock(viewer, famous)
    await ledger.unmute(viewer, muted)
    await settled(mesh)
    await check()
    await ledger.check_cold(stored, viewer, 50, 7)
    await asyncio.sleep(REBUILD_PAUSE_SECONDS)
    await warmed(mesh, api, stored, [viewer])
    await ledger.follow(viewer, blocked, famous)
    await settled(mesh)
    await check()


# --- HAND-04 -----------------------------------------------------------------------------------------------------------


async def test_hand_04_deleted_posts_break_no_page(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """A page of which one post was gone failed, ended the feed or still showed it. The others have to show, in order."""
    viewer, author = await ledger.users("Person", 2)
    await ledger.follow(viewer, author)
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_at_once(author, 100)
    await settled(mesh)
    for place in (slice(5, 6), slice(15, 35), slice(10, 20, 9)):  # one, many in a row, the first and the last of a page
        await ledger.delete(*ledger.expected(viewer)[place])
        await ledger.check(viewer, 10, 50)  # at once
    await settled(mesh)
    await ledger.check(viewer, 10, 50)
    await ledger.check_cold(stored, viewer, 10, 50)


@pytest.mark.parametrize("famous", [False, True], ids=["ordinary", "celebrity"])
async def test_hand_04_a_suspended_author_breaks_no_page(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger, famous: bool
) -> None:
    """Posts whose author is withdrawn are skipped, whoever else is on the page, and come back with the author."""
    [viewer, other, author] = await ledger.users("Person", 3)
    removed = await celebrity(ledger) if famous else author
    await ledger.follow(viewer, other, removed)
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_in_turn([removed, other, removed], 10)
    await settled(mesh)
    await ledger.suspend(mesh, removed)
    await ledger.check(viewer, 10, 7)
    await settled(mesh)
    await ledger.check(viewer, 10, 7)
    await ledger.check_cold(stored, viewer, 10)
    await ledger.restore(mesh, removed)
    await ledger.check(viewer, 10)


@pytest.mark.parametrize("famous", [False, True], ids=["ordinary", "celebrity"])
async def test_hand_04_a_deleted_author_breaks_no_page(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger, famous: bool
) -> None:
    """The same of an author who is gone for good, while their posts are erased behind and after."""
    [viewer, other, author] = await ledger.users("Person", 3)
    removed = await celebrity(ledger) if famous else author
    await ledger.follow(viewer, other, removed)
    await warmed(mesh, api, stored, [viewer])
    await ledger.posts_in_turn([removed, other, removed], 10)
    await settled(mesh)
    await ledger.delete_account(mesh, removed)
    await ledger.check(viewer, 10, 7)
    await settled(mesh)
    await ledger.check(viewer, 10, 7)
    await ledger.check_cold(stored, viewer, 10)


async def hydrations(mesh: Mesh, viewer: int, asked: Sequence[int]) -> list[tuple[int, str | None]]:
    """What hydration answers, called directly: each post with the kind of its outcome."""
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["hydrate"]) as channel:
        answer = await hydrate_pb2_grpc.HydrateServiceStub(channel).HydratePosts(
            hydrate_pb2.HydratePostsRequest(viewer_id=viewer, post_ids=asked), timeout=5
        )
    return [(hydration.post_id, hydration.WhichOneof("outcome")) for hydration in answer.hydrations]


async def test_hand_04_hydration_answers_once_for_each_id_and_marks_what_is_missing(mesh: Mesh, ledger: Ledger) -> None:
    """One id without a row, or one that came twice, failed the whole batch. Each has to have an answer of its own."""
    author, leaving = await ledger.users("Author", 2)
    written, orphan = await ledger.posts_in_turn([author], 3), await ledger.post(leaving)
    unknown = 2**62
    asked = [written[0], written[1], unknown, written[2], written[0], orphan, unknown]
    everything = [(written[0], "post"), (written[1], "post"), (unknown, "withheld"), (written[2], "post")]
    assert await hydrations(mesh, author, asked) == [*everything, (orphan, "post")]
    await ledger.delete(written[1])
    await ledger.suspend(mesh, leaving)
    everything[1] = (written[1], "withheld")
    assert await hydrations(mesh, author, asked) == [*everything, (orphan, "withheld")]
    await ledger.restore(mesh, leaving)
    await ledger.delete_account(mesh, leaving)
    assert await hydrations(mesh, author, asked) == [*everything, (orphan, "withheld")]


# --- HAND-05 -----------------------------------------------------------------------------------------------------------


async def test_hand_05_reading_goes_on_past_what_a_timeline_holds(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """Paging ended where the cache did, and trimming took the wrong end or never came. A timeline has to hold the newest
    20, the walk to go on below them, and what nobody reads to expire.
    """
    counts = (LENGTH - 1, LENGTH, LENGTH + 1, 3 * LENGTH)
    followers, authors = await ledger.users("Follower", 4), await ledger.users("Author", 4)
    for follower, author in zip(followers, authors, strict=True):
        await ledger.follow(follower, author)
    await warmed(mesh, api, stored, followers)
    for author, count in zip(authors, counts, strict=True):
        await api.feed(author)  # fills the author's own list
        await ledger.posts_at_once(author, count)
    await settled(mesh)
    await each_is_reconciled_and_stays_the_same(mesh, stored, followers)
    for follower in followers:
        assert await stored.timeline_ids(follower) == ledger.expected(follower)[:LENGTH]
        await ledger.check(follower, 50, 7)

    lives = [await stored.life_ms(keys.timeline(follower)) for follower in followers]
    await ledger.posts_in_turn(authors, 1)
    await settled(mesh)
    for follower, life in zip(followers, lives, strict=True):
        assert await stored.timeline_ids(follower) == ledger.expected(follower)[:LENGTH]
        # To be pushed to is no sign of life.
        assert DAY_MS < await stored.life_ms(keys.timeline(follower)) <= life <= 28 * DAY_MS
    # Every copy of anything goes by itself, some time after the last who asked for it.
    for name in await stored.names():
        assert not name.startswith(COPIES) or await stored.life_ms(name) != -1, name


COPIES = tuple(
    of(1).removesuffix("1")
    for of in (keys.timeline, keys.context, keys.hidden, keys.own, keys.recents, keys.post, keys.user)
)
"""How the names of all keys begin that hold copies of the truth."""


async def each_is_reconciled_and_stays_the_same(mesh: Mesh, stored: StoredKeys, followers: list[int]) -> None:
    """Adding what is there, and trimming what is short, changes nothing."""
    before = [await stored.timeline_ids(follower) for follower in followers]
    async with grpc.aio.insecure_channel(mesh.addresses.grpc["fanout"]) as channel:
        fanout = fanout_pb2_grpc.FanoutServiceStub(channel)
        for follower in followers:
            await fanout.Reconcile(fanout_pb2.ReconcileRequest(viewer_id=follower), timeout=5)
    await settled(mesh)
    assert [await stored.timeline_ids(follower) for follower in followers] == before


async def test_hand_05_a_timeline_that_has_expired_is_not_brought_back_by_a_post(
    mesh: Mesh, api: FeedApi, stored: StoredKeys, ledger: Ledger
) -> None:
    """Keys of people who had left grew for ever. Only a read makes one: what has expired stays so until somebody reads."""
    viewer, author = await ledger.users("Person", 2)
    await ledger.follow(viewer, author)
    await ledger.posts_in_turn([author], 3)
    await warmed(mesh, api, stored, [viewer])
    await stored.delete(keys.timeline(viewer))
    await ledger.posts_in_turn([author], LENGTH)
    await settled(mesh)
    assert await stored.life_ms(keys.timeline(viewer)) == -2
    await ledger.check(viewer, 50, 7)
