"""What the ranked view has to know of posts beside their ids."""

import unicodedata
import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAX_TOPICS = 4
"""How many topics of a post count: its first ones."""


class Outline(NamedTuple):
    """What traits are read from."""

    post_id: int
    has_media: bool
    is_reply: bool
    tagged: str
    """The text; it may be left out where there is no `#` in it."""


class Traits(NamedTuple):
    """What the ranked view has to know of a post beside its id."""

    post_id: int
    has_media: bool
    is_reply: bool
    topics: tuple[int, ...]
    """The 32-bit numbers of its first hashtags, at most `MAX_TOPICS`, none of them 0."""

    @classmethod
    def of(cls, outline: Outline) -> "Traits":
        """The traits of a post."""
        return cls(outline.post_id, outline.has_media, outline.is_reply, topics(outline.tagged))


def topics(text: str) -> tuple[int, ...]:
    """The numbers of the first distinct hashtags of a text, at most `MAX_TOPICS`."""
    found: dict[int, None] = {}
    for hashtag in hashtags(text):
        found[topic(hashtag)] = None
        if len(found) == MAX_TOPICS:
            break
    return tuple(found)


def topic(hashtag: str) -> int:
    """The number of a hashtag, given without its `#`: the same however it is written."""
    folded = unicodedata.normalize("NFKC", hashtag).casefold()
    return zlib.crc32(folded.encode()) or 1


def hashtags(text: str) -> Iterator[str]:
    """The hashtags of a text, in order, without their `#`.

    One is a `#` and the letters, marks, digits and underscores after it, of which not all are digits. Where a letter, a
    digit or `&` comes before the `#`, it is a part of something else: an address, or a reference to a character.
    """
    at = text.find("#")
    while at != -1:
        end = at + 1
        while end < len(text) and _is_of_tag(text[end]):
            end += 1
        tag = text[at + 1 : end]
        if not (at and _excludes(text[at - 1])) and not all(map(str.isdecimal, tag)):
            yield tag
        at = text.find("#", end)


def _excludes(before: str) -> bool:
    return before == "&" or before.isdecimal() or before.isalpha()


def _is_of_tag(character: str) -> bool:
    # `isalpha` is every letter, and `isdecimal` every digit, of any script.
    return (
        character.isalpha()
        or character == "_"
        or character.isdecimal()
        or unicodedata.category(character).startswith("M")
    )
