import random
from collections import Counter

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
