"""Traits that the store lacks are asked for once, for a bounded time, and filled in behind the read."""

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from feedkit.errors import Unavailable
from timeline_service.features import ASKED_AT_ONCE, Features, Traits

from .histories import VIEWER
from .polling import until
from .ranked_world import Cupboard, shortlist_of

PHOTO, REPLY = Traits(has_media=True, topics=(7, 8)), Traits(is_reply=True)
TALKATIVE = Traits(topics=(1, 2, 3, 4, 5))
PATIENCE = 0.05


class Posts:
    """Tells the traits of those posts that stand, as long as nobody holds it up."""

    def __init__(self, traits: Mapping[int, Traits]) -> None:
        self._traits = traits
        self.asked: list[Sequence[int]] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.is_away = False

    async def traits(self, post_ids: Sequence[int]) -> Mapping[int, Traits]:
        """See `features.Features`."""
        self.asked.append(post_ids)
        await self.answers.wait()
        if self.is_away:
            raise Unavailable.of_dependency("post")
        return {post_id: self._traits[post_id] for post_id in post_ids if post_id in self._traits}


async def test_traits_that_the_store_lacks_are_asked_for_in_one_call_and_filled_in() -> None:
    store, posts = Cupboard(), Posts({3: PHOTO, 2: REPLY})
    async with Features(store, posts.traits, patience_seconds=10) as features:
        known = await features.of(VIEWER, shortlist_of({3: 1, 2: 1, 1: 1}))
        assert (known.has_media.tolist(), known.is_reply.tolist()) == ([True, False, False], [False, True, False])
        assert known.topics.tolist() == [[7, 8, 0, 0], [0] * 4, [0] * 4]
        await until(lambda: store.traits == {3: PHOTO, 2: REPLY, 1: Traits()})
        await features.of(VIEWER, shortlist_of({3: 1, 2: 1, 1: 1}))
    assert posts.asked == [[3, 2, 1]], "not again, not even for the one that is gone"


async def test_of_more_topics_than_a_model_knows_the_first_are_taken() -> None:
    async with Features(Cupboard(), Posts({3: TALKATIVE}).traits, patience_seconds=10) as features:
        assert (await features.of(VIEWER, shortlist_of({3: 1}))).topics.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("how", ["away", "slow"])
async def test_without_an_answer_in_time_the_read_goes_on_without_traits_and_asks_again_later(how: str) -> None:
    store, posts = Cupboard(), Posts({3: PHOTO})
    posts.is_away = how == "away"
    if how == "slow":
        posts.answers.clear()
    async with Features(store, posts.traits, patience_seconds=PATIENCE) as features:
        known = await features.of(VIEWER, shortlist_of({3: 1}))
        assert (known.has_media.tolist(), store.traits) == ([False], {})
        posts.is_away = False
        posts.answers.set()
        assert (await features.of(VIEWER, shortlist_of({3: 1}))).has_media.tolist() == [True]


async def test_what_somebody_asks_for_already_is_not_asked_for_again() -> None:
    posts = Posts({3: PHOTO, 2: REPLY})
    posts.answers.clear()
    async with Features(Cupboard(), posts.traits, patience_seconds=10) as features:
        first = asyncio.create_task(features.of(VIEWER, shortlist_of({3: 1})))
        await until(lambda: len(posts.asked) == 1)
        second = asyncio.create_task(features.of(VIEWER, shortlist_of({3: 1, 2: 1})))
        await until(lambda: len(posts.asked) == 2)
        posts.answers.set()
        await asyncio.gather(first, second)
    assert posts.asked == [[3], [2]]


async def test_no_more_than_some_questions_are_under_way() -> None:
    posts = Posts({})
    posts.answers.clear()
    async with Features(Cupboard(), posts.traits, patience_seconds=10) as features:
        reads = [asyncio.create_task(features.of(VIEWER, shortlist_of({post: 1}))) for post in range(1, 10)]
        await until(lambda: sum(read.done() for read in reads) == 9 - ASKED_AT_ONCE)
        assert len(posts.asked) == ASKED_AT_ONCE
        posts.answers.set()
        await asyncio.gather(*reads)
