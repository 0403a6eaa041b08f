import json
import random
from collections import Counter
from typing import Any

import httpx
from devmesh import seed


def test_people_have_different_names_that_fit() -> None:
    assert len(set(seed.PEOPLE)) == len(seed.PEOPLE) == 60
    assert all(0 < len(name) <= 100 for name in seed.PEOPLE)


def test_posts_are_different_and_short() -> None:
    texts = seed.texts(random.Random(1), 150)
    assert len(set(texts)) == 150
    assert all(0 < len(text) <= 200 for text in texts)
    assert not any("{" in text for text in texts)


def test_the_same_dice_make_the_same_community() -> None:
    assert seed.texts(random.Random(7), 150) == seed.texts(random.Random(7), 150)


def test_everybody_follows_the_celebrities_and_nobody_themselves() -> None:
    people = [str(number) for number in range(1, 61)]
    for person in people:
        followees = seed.followees(random.Random(int(person)), people, person)
        assert person not in followees
        assert {"1", "2", "3"} - {person} <= set(followees)
        assert len(followees) == len(set(followees))


def test_some_people_are_pulled_and_most_are_not() -> None:
    people = [str(number) for number in range(1, 61)]
    dice = random.Random(2024)
    followers = Counter(followee for person in people for followee in seed.followees(dice, people, person))
    pulled = [person for person in people if followers[person] >= seed.PULLED_FROM_FOLLOWERS]
    assert pulled == people[:5]


def test_fame_is_unequal_beyond_the_celebrities() -> None:
    people = [str(number) for number in range(1, 61)]
    dice = random.Random(3)
    followers = Counter(followee for person in people for followee in seed.followees(dice, people, person))
    ordinary = sorted((followers[person] for person in people[3:]), reverse=True)
    assert sum(ordinary[:6]) > 3 * sum(ordinary[-6:])


def test_some_posts_are_about_something_and_most_are_not() -> None:
    topics = Counter(word for text in seed.texts(random.Random(1), 150) for word in text.split() if word[0] == "#")
    assert len(topics) >= 8
    assert 30 <= topics.total() <= 90


def test_favourites_are_two_of_those_one_follows_and_no_celebrities() -> None:
    people = [str(number) for number in range(1, 61)]
    assert seed.favourites(people, ["1", "2", "3", "20", "9", "30"]) == ["20", "9"]


def test_what_was_liked_was_looked_at_longer() -> None:
    seen = [seed.Written(str(number), "1") for number in range(12)]
    told = seed.impressions(random.Random(1), seen, liked=seen[:4])
    assert [each["position"] for each in told] == list(range(12))
    assert min(each["dwellMs"] for each in told[:4]) > max(each["dwellMs"] for each in told[4:])
    assert {each["view"] for each in told} == {"latest"}


Call = tuple[str, str, Any]
"""Method, path and body."""


def calls_of_a_seed() -> list[Call]:
    """What a seed asks of a gateway behind which nobody lives yet."""
    calls: list[Call] = []

    def answer(request: httpx.Request) -> httpx.Response:
        calls.append((request.method, request.url.path, json.loads(request.content or b"null")))
        if request.method == "GET":
            return httpx.Response(404)
        return httpx.Response(200, json={"id": str(len(calls))})

    seed.seed("http://gateway", transport=httpx.MockTransport(answer))
    return calls


def test_the_same_community_is_made_by_the_same_calls() -> None:
    assert calls_of_a_seed() == calls_of_a_seed()


def test_everybody_looks_many_like_some_reply_and_one_has_favourites() -> None:
    calls = calls_of_a_seed()
    kinds = Counter((method, path.rpartition("/")[2]) for method, path, _ in calls)
    assert kinds["POST", "impressions"] == 60
    assert 60 <= kinds["PUT", "like"] <= 120
    assert 10 <= kinds["PUT", "repost"] <= 30
    assert 10 <= sum(path == "/api/posts" and "replyTo" in body for _, path, body in calls) <= 40
    assert sum(path.startswith("/api/favourites/") for _, path, _ in calls) == 2


def test_a_start_takes_no_more_calls_than_a_few_seconds_hold() -> None:
    assert len(calls_of_a_seed()) <= 480
