"""Followers and followees as pages and as streams."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from feedkit.errors import NotFound
from feedkit.postgres import Database
from graph_service.account_store import AccountStore
from graph_service.accounts import Accounts
from graph_service.block_store import BlockStore
from graph_service.blocks import Blocks
from graph_service.cache_store import CacheStore
from graph_service.favourite_store import FavouriteStore
from graph_service.favourites import Favourites
from graph_service.follow_store import FollowStore
from graph_service.follows import Follows
from graph_service.mute_store import MuteStore
from graph_service.mutes import Mutes
from graph_service.store import Store
from graph_service.user_lists import Side, UserLists
from graph_service.users import Standing

pytestmark = pytest.mark.integration

MakeUsers = Callable[[int], Awaitable[list[int]]]
OpenDatabase = Callable[..., Awaitable[Database]]
MakeCrowd = Callable[[int], Awaitable[tuple[int, list[int]]]]
STREAM_PAGE = 100


@pytest.fixture
def follows(database: Database, caches: CacheStore) -> Follows:
    return Follows(FollowStore(database), caches, 5000)


@pytest.fixture
def lists(store: Store) -> UserLists:
    return UserLists(store, STREAM_PAGE)


async def walk(lists: UserLists, side: Side, user_id: int, page_size: int) -> list[list[int]]:
    """The ids of every page."""
    pages: list[list[int]] = []
    token = ""
    while token or not pages:
        page = await lists.page(side, user_id, page_size, token)
        pages.append([user.id for user in page.users])
        token = page.next_page_token
    return pages


async def test_followees_are_listed_the_newest_follow_first(lists: UserLists, follows: Follows, make_users: MakeUsers):
    a, b, c, d = await make_users(4)
    await follows.follow(a, c)
    await follows.follow_many(a, [d, b])
    assert await walk(lists, Side.FOLLOWEES, a, 2) == [[b, d], [c]]


async def test_followers_are_listed_the_newest_follow_first(lists: UserLists, follows: Follows, make_users: MakeUsers):
    a, b, c, d = await make_users(4)
    for follower in (c, d, b):
        await follows.follow(follower, a)
    assert await walk(lists, Side.FOLLOWERS, a, 2) == [[b, d], [c]]


async def test_listed_users_have_names_and_counts(lists: UserLists, follows: Follows, make_users: MakeUsers):
    a, b, c = await make_users(3)
    await follows.follow(b, a)
    await follows.follow_many(c, [a, b])
    listed = (await lists.page(Side.FOLLOWERS, a, 0, "")).users
    assert listed == [(c, "user 3", 0, 2, Standing.ACTIVE), (b, "user 2", 1, 1, Standing.ACTIVE)]


@pytest.mark.parametrize(("count", "pages"), [(0, [0]), (1, [1]), (2, [2]), (3, [3]), (4, [3, 1]), (6, [3, 3])])
async def test_the_token_is_empty_at_the_end_and_only_there(
    lists: UserLists, follows: Follows, make_users: MakeUsers, count: int, pages: list[int]
):
    a, *others = await make_users(count + 1)
    for other in others:
        await follows.follow(other, a)
    assert [len(page) for page in await walk(lists, Side.FOLLOWERS, a, 3)] == pages


@pytest.mark.parametrize(("page_size", "length"), [(0, 20), (50, 50), (51, 50), (2**31 - 1, 50)])
async def test_the_page_size_is_clamped(
    lists: UserLists, follows: Follows, make_users: MakeUsers, page_size: int, length: int
):
    a, *others = await make_users(60)
    await follows.follow_many(a, others)
    assert len((await lists.page(Side.FOLLOWEES, a, page_size, "")).users) == length


@pytest.mark.parametrize("side", Side)
async def test_an_unknown_user_has_no_page(lists: UserLists, side: Side):
    with pytest.raises(NotFound) as caught:
        await lists.page(side, 2**63 - 1, 0, "")
    assert caught.value.metadata["field"] == "user_id"


async def test_a_walk_goes_on_when_the_follow_at_the_cursor_is_gone(
    lists: UserLists, follows: Follows, make_users: MakeUsers
):
    a, *others = await make_users(7)
    for other in others:
        await follows.follow(other, a)
    first = await lists.page(Side.FOLLOWERS, a, 3, "")
    for user in first.users:
        await follows.unfollow(user.id, a)
    rest = await lists.page(Side.FOLLOWERS, a, 3, first.next_page_token)
    assert [user.id for user in rest.users] == [others[2], others[1], others[0]]


async def test_pages_neither_repeat_nor_skip_while_follows_come_and_go(
    lists: UserLists, follows: Follows, make_users: MakeUsers
):
    a, *others = await make_users(301)
    steady, leaving, arriving = others[:100], others[100:200], others[200:]
    for pair in zip(steady, leaving, strict=True):
        for other in pair:
            await follows.follow(other, a)

    async def change() -> None:
        for old, new in zip(leaving, arriving, strict=True):
            await follows.follow(new, a)
            await follows.unfollow(old, a)
            await follows.follow(old, a)

    changing = asyncio.create_task(change())
    walks = [await walk(lists, Side.FOLLOWERS, a, 7)]
    while not changing.done():
        walks.append(await walk(lists, Side.FOLLOWERS, a, 7))
    await changing
    assert len(walks) > 1
    for pages in walks:
        seen = [user_id for page in pages for user_id in page]
        assert len(seen) == len(set(seen))
        assert [user_id for user_id in seen if user_id in set(steady)] == steady[::-1]


@pytest.mark.parametrize("page_size", [1, 2, 3, 10])
async def test_deleted_users_are_skipped_and_shorten_no_page(
    lists: UserLists, make_users: MakeUsers, database: Database, caches: CacheStore, page_size: int
):
    a, *others = await make_users(9)
    await Follows(FollowStore(database), caches, 5000).follow_many(a, others)
    accounts = Accounts(AccountStore(database), caches)
    for gone in (others[0], others[3], others[4], others[7]):
        await accounts.delete(gone)
    here = [others[6], others[5], others[2], others[1]]
    expected = [here[start : start + page_size] for start in range(0, 4, page_size)]
    assert await walk(lists, Side.FOLLOWEES, a, page_size) == expected


@pytest.mark.parametrize("side", [Side.BLOCKED, Side.MUTED])
async def test_the_blocked_and_the_muted_are_listed_the_newest_first_to_those_who_do_it(
    lists: UserLists, make_users: MakeUsers, database: Database, caches: CacheStore, side: Side
):
    a, *others = await make_users(6)
    make = {
        Side.BLOCKED: Blocks(BlockStore(database), caches, 5000).block,
        Side.MUTED: Mutes(MuteStore(database), caches, 5000).mute,
    }
    for other in others:
        await make[side](a, other)
    assert await walk(lists, side, a, 2) == [[others[4], others[3]], [others[2], others[1]], [others[0]]]
    assert await walk(lists, side, others[0], 2) == [[]]


async def test_favourites_are_listed_the_newest_follow_first_whenever_they_became_that(
    lists: UserLists, follows: Follows, make_users: MakeUsers, database: Database, caches: CacheStore
):
    a, *others = await make_users(7)
    await follows.follow_many(a, others)
    await follows.follow(others[0], a)
    favourites = Favourites(FavouriteStore(database), caches, 50)
    for favourite in (others[5], others[0], others[3], others[4], others[1]):
        await favourites.favour(a, favourite)
    await favourites.unfavour(a, others[4])
    await Accounts(AccountStore(database), caches).delete(others[3])
    assert await walk(lists, Side.FAVOURITES, a, 2) == [[others[5], others[1]], [others[0]]]
    assert await walk(lists, Side.FAVOURITES, others[0], 2) == [[]]


@pytest.mark.parametrize("count", [1, STREAM_PAGE - 1, STREAM_PAGE, STREAM_PAGE + 1, 2 * STREAM_PAGE + 5])
async def test_a_stream_has_every_follower_once_in_full_pages(lists: UserLists, make_crowd: MakeCrowd, count: int):
    celebrity, followers = await make_crowd(count)
    pages = [page async for page in lists.stream(Side.FOLLOWERS, celebrity)]
    assert sorted(user_id for page in pages for user_id in page) == followers
    assert [len(page) for page in pages[:-1]] == [STREAM_PAGE] * ((count - 1) // STREAM_PAGE)


async def test_a_stream_of_followees_has_every_followee_once(lists: UserLists, follows: Follows, make_users: MakeUsers):
    a, *others = await make_users(1001)
    await follows.follow_many(a, others)
    pages = [page async for page in lists.stream(Side.FOLLOWEES, a)]
    assert [len(page) for page in pages] == [STREAM_PAGE] * 10
    assert [followee for page in pages for followee in page] == others[::-1]


async def test_an_unknown_user_has_an_empty_stream(lists: UserLists):
    assert [page async for page in lists.stream(Side.FOLLOWERS, 2**63 - 1)] == []


async def test_a_slow_consumer_of_a_stream_holds_no_connection(open_database: OpenDatabase, make_crowd: MakeCrowd):
    store = Store(await open_database(postgres_pool_size=1, postgres_acquire_seconds=0.5))
    celebrity, _ = await make_crowd(STREAM_PAGE + 1)
    stream = aiter(UserLists(store, STREAM_PAGE).stream(Side.FOLLOWERS, celebrity))
    assert len(await anext(stream)) == STREAM_PAGE
    assert await store.user_exists(celebrity)
    assert len(await anext(stream)) == 1


async def test_a_follow_made_again_during_a_stream_is_not_in_it_twice(
    lists: UserLists, follows: Follows, make_crowd: MakeCrowd
):
    celebrity, followers = await make_crowd(STREAM_PAGE + 5)
    stream = aiter(lists.stream(Side.FOLLOWERS, celebrity))
    first = await anext(stream)
    await follows.unfollow(first[0], celebrity)
    await follows.follow(first[0], celebrity)
    rest = [user_id async for page in stream for user_id in page]
    assert sorted([*first, *rest]) == followers
