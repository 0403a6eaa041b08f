"""A source of several authors' lists: complete down to the highest horizon, and below it pulled for those who need it."""

from collections.abc import Collection, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st
from timeline_service.author_posts import AuthorPosts
from timeline_service.authors_source import AuthorsSource
from timeline_service.merge import Merge
from timeline_service.source import TOP, Stretch

from .histories import unhurried

AUTHORS = (1, 2, 3)


class Pull:
    """The truth: posts, post → author."""

    def __init__(self, posts: Mapping[int, int]) -> None:
        self.posts = posts
        self.asked: list[set[int]] = []

    async def recent(self, authors: Collection[int], position: int, limit: int) -> Stretch:
        """See `pull_source.Pull`."""
        self.asked.append(set(authors))
        found = sorted((p for p, a in self.posts.items() if p < position and a in authors), reverse=True)[:limit]
        return Stretch(found, [self.posts[post] for post in found], found[-1] if len(found) == limit else 0)


async def nothing(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
    """Loads nothing."""
    return {}


def listed(posts: Mapping[int, int], horizons: Mapping[int, int]) -> dict[int, AuthorPosts]:
    """The lists of authors, each down to its horizon."""
    return {
        author: AuthorPosts.of(
            sorted((p for p, a in posts.items() if a == author and p > horizon), reverse=True), horizon
        )
        for author, horizon in horizons.items()
    }


BY_TURNS = {post: AUTHORS[post % 3] for post in range(1, 31)}


async def test_lists_are_complete_down_to_the_highest_horizon() -> None:
    source = AuthorsSource(listed(BY_TURNS, {1: 0, 2: 20, 3: 10}), [], nothing, Pull({}))
    stretch = source.peek(TOP, 100)
    assert stretch is not None
    assert (list(stretch.post_ids), stretch.complete_to) == (list(range(30, 20, -1)), 21)


async def test_no_more_is_returned_than_asked_for_and_the_line_is_the_last_one() -> None:
    source = AuthorsSource(listed(BY_TURNS, {1: 0, 2: 0, 3: 0}), [], nothing, Pull({}))
    assert source.peek(25, 3) == Stretch([24, 23, 22], [AUTHORS[0], AUTHORS[2], AUTHORS[1]], 22)


async def test_below_a_horizon_only_those_authors_are_pulled_whose_lists_end_above() -> None:
    pull = Pull(BY_TURNS)
    source = AuthorsSource(listed(BY_TURNS, {1: 0, 2: 20, 3: 10}), [], nothing, pull)
    assert source.peek(21, 5) is None
    stretch = await source.read(21, 5)
    assert (list(stretch.post_ids), stretch.complete_to) == ([20, 19, 18, 17, 16], 16)
    assert pull.asked == [{2}]


async def test_what_was_pulled_is_complete_no_further_than_the_lists_beside_it() -> None:
    source = AuthorsSource(listed(BY_TURNS, {2: 20, 3: 10}), [], nothing, Pull(BY_TURNS))
    assert (await source.read(21, 100)).complete_to == 11


async def test_lists_are_complete_no_further_than_what_was_pulled_beside_them() -> None:
    pull = Pull({**BY_TURNS, **dict.fromkeys(range(12, 21), 2)})
    source = AuthorsSource(listed(pull.posts, {1: 0, 2: 20, 3: 0}), [], nothing, pull)
    stretch = await source.read(21, 4)
    assert (list(stretch.post_ids), stretch.complete_to) == ([20, 19, 18, 17], 17)


async def test_at_and_below_the_floor_nothing_is_pulled() -> None:
    source = AuthorsSource(listed(BY_TURNS, {1: 15, 2: 20}), [], nothing, Pull({}), floor=20)
    stretch = source.peek(TOP, 100)
    assert stretch is not None
    assert stretch.complete_to == 0


async def test_authors_whose_lists_cannot_be_had_are_pulled_and_not_loaded_again() -> None:
    loads: list[Sequence[int]] = []

    async def load(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        loads.append(author_ids)
        return listed(BY_TURNS, {1: 0})

    pull = Pull(BY_TURNS)
    source = AuthorsSource({}, [1, 2], load, pull)
    merge = Merge([source], TOP, AUTHORS)
    taken = [entry.post_id for _ in range(3) for entry in await merge.take(5)]
    assert taken == [post for post in range(30, 0, -1) if BY_TURNS[post] in (1, 2)][:15]
    assert loads == [[1, 2]]
    assert pull.asked[0] == {2}


async def test_an_author_who_is_left_out_is_neither_listed_nor_loaded_nor_pulled() -> None:
    loads: list[Sequence[int]] = []

    async def load(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        loads.append(author_ids)
        return listed(BY_TURNS, {1: 10})

    pull = Pull(BY_TURNS)
    source = AuthorsSource(listed(BY_TURNS, {2: 20}), [1, 3], load, pull)
    source.leave_out(2)
    source.leave_out(3)
    stretch = await source.read(21, 100)
    assert (set(stretch.author_ids), stretch.complete_to, loads, pull.asked) == ({1}, 11, [[1]], [])
    await source.read(11, 100)
    source.leave_out(1)
    assert (source.peek(11, 100), pull.asked) == (Stretch([], [], 0), [{1}])


@unhurried
@given(
    st.dictionaries(st.integers(1, 60), st.sampled_from(AUTHORS), min_size=20),
    st.fixed_dictionaries({author: st.integers(0, 60) for author in AUTHORS}),
    st.sets(st.sampled_from(AUTHORS)),
    st.lists(st.integers(1, 9), min_size=1),
)
async def test_a_walk_shows_all_that_they_wrote(
    posts: dict[int, int], horizons: dict[int, int], unknown: set[int], counts: list[int]
) -> None:
    lists = listed(posts, horizons)

    async def load(author_ids: Sequence[int]) -> Mapping[int, AuthorPosts]:
        return {author: lists[author] for author in author_ids if author != 1}

    known = {author: lists[author] for author in AUTHORS if author not in unknown}
    merge = Merge([AuthorsSource(known, sorted(unknown), load, Pull(posts))], TOP, AUTHORS)
    taken = [entry.post_id for count in [*counts, 100] for entry in await merge.take(count)]
    assert taken == sorted(posts, reverse=True)
