"""A small lively community, written through the public API like any client would, the same each time.

Sixty people, three of whom everybody follows; the others are followed the more unequally the more they are known, as
people are. About 150 posts, newest from all over, some of them replies. Everybody has looked at some of what they follow,
and liked and reposted a little of it, so that the ranked view has something to go by.
"""

import random
from dataclasses import dataclass
from http import HTTPStatus
from threading import Event
from typing import Any, NamedTuple

import httpx

from devmesh.errors import MeshCancelled, MeshError

_SEED = 2024
_CELEBRITIES = 3
_POSTS = 150
PULLED_FROM_FOLLOWERS = 30
"""The follower count from which authors are pulled that suits this community: five of sixty are, among them all whom
everybody follows, and everybody's feed comes both ways."""
# Whose feed is shown first: an ordinary person who follows enough people.
_VIEWER = 6

# The first three are the celebrities.
PEOPLE = (
    "Nova Castellane", "Idris Okonjo", "Mei Tanaka-Lind",
    "Ada Brandt", "Tomás Quiroga", "Priya Raman", "Lena Vogel", "Samir Haddad", "Chidi Eze", "Yuki Arai",
    "Freja Lindqvist", "Mateo Rossi", "Anya Petrova", "Kofi Mensah", "Rosa Delgado", "Henrik Dahl",
    "Zainab Yusuf", "Oskar Nowak", "Camille Laurent", "Diego Fuentes", "Hana Kim", "Liam O'Connor",
    "Nadia Benali", "Pavel Novák", "Ines Carvalho", "Jonas Weber", "Amara Diallo", "Ravi Menon",
    "Elif Demir", "Noah Fischer", "Sofia Marino", "Tariq Aziz", "Greta Holm", "Wei Zhang", "Maya Cohen",
    "Emil Sørensen", "Lucía Ortega", "Kwame Boateng", "Olena Shevchenko", "Marcus Bell", "Thandi Nkosi",
    "Jakub Zieliński", "Leila Farahani", "Aiko Mori", "Bruno Alves", "Signe Berg", "Omar Farouk",
    "Clara Hoffmann", "Dev Patel", "Nina Kowalska", "Finn Gallagher", "Salma Idrissi", "Viktor Horváth",
    "Ruth Adeyemi", "Theo Papadakis", "Isla Murray", "Arjun Nair", "Paula Jiménez", "Max Lehmann", "Joy Wanjiru",
)  # fmt: skip

_SENTENCES = (
    "The bread rose {time}. I have told {someone} and now I am telling you. #baking",
    "Cycled to {place} {time}. Wind in both directions, somehow. #cycling",
    "Reading {book} again. The second half is a different novel at this age. #books",
    "Unpopular opinion: {food} is better cold.",
    "If anybody in {place} has lost a green umbrella, it is well looked after here.",
    "Three hours of debugging. It was {cause}. It is always {cause}. #debugging",
    "{food} for breakfast, because nobody could stop me.",
    "Our choir sings in {place} {time}. Come early, the good seats go first. #choir",
    "The cat has decided that {thing} belongs to her now. #cats",
    "Somebody painted the bench in {place} yellow. The whole street walks differently.",
    "Question for the gardeners: why do my tomatoes look at me like that? #garden",
    "Took the slow train to {place}. Recommended, with {book} and a sandwich. #trains #books",
    "My grandmother's rule for {food}: when you think it is enough butter, begin. #baking",
    "Sunset over {place} was showing off {time}.",
    "Learned {time} that {fact}. I will not be taking questions.",
    "We fixed {thing}! Forty years old and it hums again.",
    "Hot take: {book} should have been a short story. #books",
    "First frost {time}. The children declared it a holiday, we are negotiating.",
    "Today I taught {someone} to whistle. I apologise to the neighbours.",
    "Meeting could have been an e-mail. E-mail could have been {thing}.",
    "Does anyone else keep {thing} 'just in case'? Asking for a full cupboard.",
    "Two goals in the last five minutes. {place} will not sleep. #football",
    "New record: {food} from nothing to table in eleven minutes.",
    "Walked past the old cinema in {place}. They are showing silent films again! #cinema",
    "The night shift is quiet. Even {cause} seems to be asleep.",
    "Small victory: {someone} laughed at my joke. The same joke, fifth time.",
    "Looking for a fourth player for Tuesdays. Bring {food} or good dice.",
    "I swear the moon {time} was closer than {place}.",
    "Wrote 400 words and deleted 500. Progress.",
    "PSA: {fact}.",
)
_REPLIES = (
    "This made my morning.",
    "I have been saying this for years.",
    "Tell me more, and slowly.",
    "And how did it end?",
    "My grandmother would like a word with you.",
    "Strongly agree, as does the cat.",
    "Pictures, or it did not happen.",
    "Where was this when I needed it?",
)
_WORDS = {
    "time": ("this morning", "last night", "before sunrise", "just now", "on my lunch break", "at last", "yesterday"),
    "someone": ("my sister", "the whole tram", "my neighbour", "the new colleague", "a very patient dog"),
    "place": ("Lisbon", "the harbour", "Kraków", "the old town", "Accra", "Bergen", "Kyoto", "Trieste"),
    "book": ("Middlemarch", "The Left Hand of Darkness", "Invisible Cities", "Things Fall Apart", "Kokoro"),
    "food": ("lentil soup", "jollof rice", "plum cake", "cold noodles", "shakshuka", "pierogi", "mango with chilli"),
    "cause": ("a time zone", "a missing comma", "the cache", "DNS", "an invisible space", "somebody's calendar"),
    "thing": ("the accordion", "a radio from 1974", "the good scissors", "the last umbrella", "my left shoe"),
    "fact": (
        "octopuses have three hearts", "honey does not spoil", "a day on Venus is longer than its year",
        "wombats make cubes", "there are more trees than stars in the galaxy",
    ),
}  # fmt: skip
_PICTURES = (
    ("harbour", "Fishing boats in flat morning light"),
    ("loaf", "A dark round loaf, cut open"),
    ("cat", "A grey cat asleep on sheet music"),
    ("bench", "A bench painted bright yellow under a plane tree"),
    ("moon", "A very large moon above a row of roofs"),
    ("garden", "Tomato plants, some of them leaning"),
)


_IS_REPLY = 0.15
_LOOKED_AT = 12
"""How many posts of those they follow everybody has looked at."""
_IS_LIKED, _IS_REPOSTED = 0.12, 0.025
_FAVOURITES = 2
"""How many favourites the person has whose feed is shown first."""


class Written(NamedTuple):
    """A post that is there now."""

    id: str
    author: str


@dataclass(frozen=True)
class Showcase:
    """What of the seeded mesh is worth a look: ids of users."""

    viewer: str
    """Somebody with a lively feed."""
    celebrity: str
    """Somebody whom everybody follows."""
    people: int
    """How many people were made; 0 when there were some already and nothing was written."""
    posts: int


def seed(gateway: str, cancelled: Event | None = None, transport: httpx.BaseTransport | None = None) -> Showcase:
    """Fill the mesh behind the base URL ``gateway``, reached by ``transport``, unless people live there already.

    ``MeshError`` when the gateway refuses something, ``MeshCancelled`` as soon as ``cancelled`` is set.
    """
    with httpx.Client(base_url=gateway, timeout=30, trust_env=False, transport=transport) as client:
        api = _Api(client, cancelled or Event())
        return _existing(api) or _populate(api)


class _Api:
    """The calls of the public API that a community is made with."""

    def __init__(self, client: httpx.Client, cancelled: Event) -> None:
        self._client = client
        self._cancelled = cancelled

    def user(self, user_id: int) -> dict[str, Any] | None:
        answer = self._call("GET", f"/api/users/{user_id}", user=str(user_id))
        return None if answer.status_code == HTTPStatus.NOT_FOUND else answer.json()

    def create_user(self, name: str) -> str:
        user_id: str = self._call("POST", "/api/users", json={"name": name}).json()["id"]
        return user_id

    def follow(self, follower: str, followees: list[str]) -> None:
        self._call("POST", "/api/following", user=follower, json={"userIds": followees})

    def post(self, author: str, content: str, media: list[dict[str, Any]]) -> Written:
        body = {"content": content, "media": media}
        return Written(self._call("POST", "/api/posts", user=author, json=body).json()["id"], author)

    def reply(self, author: str, content: str, to: Written) -> Written:
        body = {"content": content, "replyTo": to.id}
        return Written(self._call("POST", "/api/posts", user=author, json=body).json()["id"], author)

    def mark(self, actor: str, post: Written, mark: str) -> None:
        self._call("PUT", f"/api/posts/{post.id}/{mark}", user=actor)

    def tell_seen(self, viewer: str, impressions: list[dict[str, Any]]) -> None:
        self._call("POST", "/api/feed/impressions", user=viewer, json={"impressions": impressions})

    def favour(self, actor: str, favourite: str) -> None:
        self._call("PUT", f"/api/favourites/{favourite}", user=actor)

    def _call(self, method: str, path: str, *, user: str | None = None, json: Any = None) -> httpx.Response:
        if self._cancelled.is_set():
            raise MeshCancelled
        headers = {} if user is None else {"X-User-Id": user}
        try:
            answer = self._client.request(method, path, headers=headers, json=json)
        except httpx.HTTPError as error:
            raise MeshError(f"the seed's {method} {path} failed: {error!r}") from error
        if answer.is_error and answer.status_code != HTTPStatus.NOT_FOUND:
            raise MeshError(f"the seed's {method} {path} got {answer.status_code}: {answer.text}")
        return answer


def _existing(api: _Api) -> Showcase | None:
    """Whom to show where people live already: among the first of them, the best known, and an ordinary one
    who follows most."""
    people: list[dict[str, Any]] = []
    # Their ids are database identities, so the first ones are small and dense.
    for user_id in range(1, len(PEOPLE) + 1):
        person = api.user(user_id)
        if person is None:
            break
        people.append(person)
    if not people:
        return None
    celebrity, *others = sorted(people, key=lambda person: person["followerCount"], reverse=True)
    ordinary = others[_CELEBRITIES - 1 :] or people
    viewer = max(ordinary, key=lambda person: person["followingCount"])
    return Showcase(viewer["id"], celebrity["id"], people=0, posts=0)


def _populate(api: _Api) -> Showcase:
    dice = random.Random(_SEED)  # noqa: S311 - the same community each time, nothing secret
    people = [api.create_user(name) for name in PEOPLE]
    following = {person: followees(dice, people, person) for person in people}
    for follower, followed in following.items():
        api.follow(follower, followed)
    # Everybody is heard at least once, and some cannot stop.
    authors = people + dice.choices(people, weights=_fame(len(people)), k=_POSTS - len(people))
    dice.shuffle(authors)
    posts = _write(api, dice, authors)
    for person, followed in following.items():
        _look(api, dice, person, [post for post in posts if post.author in followed])
    viewer = people[_VIEWER]
    for favourite in favourites(people, following[viewer]):
        api.favour(viewer, favourite)
    return Showcase(viewer, people[0], people=len(people), posts=len(authors))


def _write(api: _Api, dice: random.Random, authors: list[str]) -> list[Written]:
    posts: list[Written] = []
    for author, text in zip(authors, texts(dice, len(authors)), strict=True):
        if posts and dice.random() < _IS_REPLY:
            posts.append(api.reply(author, dice.choice(_REPLIES), to=dice.choice(posts)))
        else:
            posts.append(api.post(author, text, media(dice)))
    return posts


def _look(api: _Api, dice: random.Random, person: str, posts: list[Written]) -> None:
    """Somebody looks at some posts, and likes and reposts a little of it."""
    seen = dice.sample(posts, k=min(_LOOKED_AT, len(posts)))
    liked = [post for post in seen if dice.random() < _IS_LIKED]
    for post in liked:
        api.mark(person, post, "like")
    for post in seen:
        if dice.random() < _IS_REPOSTED:
            api.mark(person, post, "repost")
    api.tell_seen(person, impressions(dice, seen, liked))


def _fame(people: int) -> list[float]:
    """Weights with a heavy tail: the second is known half as well as the first, the tenth a tenth as well."""
    return [1 / rank for rank in range(1, people + 1)]


def followees(dice: random.Random, people: list[str], follower: str) -> list[str]:
    """The celebrities and up to thirty others, the well-known ones more often."""
    drawn = dice.choices(people, weights=_fame(len(people)), k=dice.randint(5, 30))
    wanted = dict.fromkeys(people[:_CELEBRITIES] + drawn)
    return [person for person in wanted if person != follower]


def favourites(people: list[str], followed: list[str]) -> list[str]:
    """Whom of those that one follows one would not miss: two who are no celebrities."""
    return [person for person in followed if person not in people[:_CELEBRITIES]][:_FAVOURITES]


def impressions(dice: random.Random, seen: list[Written], liked: list[Written]) -> list[dict[str, Any]]:
    """How long somebody looked at each post: longer at what they liked."""
    return [
        {
            "postId": post.id,
            "position": place,
            "dwellMs": dice.randint(300, 2_000) + (3_000 if post in liked else 0),
            "view": "latest",
        }
        for place, post in enumerate(seen)
    ]


def texts(dice: random.Random, number: int) -> list[str]:
    """``number`` different short texts."""
    found: dict[str, None] = {}
    while len(found) < number:
        sentence = dice.choice(_SENTENCES)
        words = {slot: dice.choice(choices) for slot, choices in _WORDS.items()}
        found[sentence.format(**words)] = None
    return list(found)


def media(dice: random.Random) -> list[dict[str, Any]]:
    """Nothing mostly, sometimes a picture or two."""
    pictures = dice.sample(_PICTURES, k=dice.choices((0, 1, 2), weights=(80, 16, 4))[0])
    return [
        {
            "url": f"https://media.example.org/{name}.jpg",
            "type": "image/jpeg",
            "width": 1600,
            "height": dice.choice((900, 1200)),
            "altText": description,
        }
        for name, description in pictures
    ]
