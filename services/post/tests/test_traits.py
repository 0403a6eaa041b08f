"""What the ranked view is told of posts: which hashtags there are, and which of them are the same."""

import unicodedata
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from post_service.traits import MAX_TOPICS, Outline, Traits, hashtags, topic, topics

LETTERS = st.characters(categories=["Lu", "Ll", "Lo", "Lm", "Lt"])
PARTS = LETTERS | st.characters(categories=["Mn", "Mc", "Nd"]) | st.just("_")
TAGS = st.builds(str.__add__, LETTERS, st.text(PARTS, max_size=8))
BREAKS = st.text(st.characters(categories=["Zs", "Po", "Sm", "So"], exclude_characters="#&"), min_size=1, max_size=3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("no tag", []),
        ("#one two #three", ["one", "three"]),
        ("#one#two", ["one"]),
        ("#one##two", ["one", "two"]),
        ("(#one), „#two“!", ["one", "two"]),
        ("#2024", []),
        ("#2024w #w2024 #20_24", ["2024w", "w2024", "20_24"]),
        ("#٢٠٢٤ #_", ["_"]),
        ("page#part 7#8a é#x &#x27; &#39;", []),
        ("_#one", ["one"]),
        ("# #! #", []),
        ("#a-b", ["a"]),
        ("#日本語 #हिन्दी #cafe\u0301", ["日本語", "हिन्दी", "cafe\u0301"]),
        ("❤\ufe0f#one", ["one"]),
        ("\uff03one", []),
    ],
)
def test_a_hashtag_is_what_people_take_for_one(text: str, found: list[str]) -> None:
    assert list(hashtags(text)) == found


@given(st.lists(TAGS, max_size=6), st.lists(BREAKS, min_size=7, max_size=7))
def test_every_hashtag_between_other_things_is_found_whole_and_in_order(tags: list[str], breaks: list[str]) -> None:
    text = "".join(between + "#" + tag for between, tag in zip(breaks, tags, strict=False)) + breaks[-1]
    assert list(hashtags(text)) == tags


@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("#&_a1"), max_size=60))
def test_hashtags_are_parts_of_the_text_each_with_more_than_digits(text: str) -> None:
    for tag in hashtags(text):
        assert f"#{tag}" in text
        assert any(not character.isdecimal() for character in tag)
        assert not any(character.isspace() or character in "#&" for character in tag)


@given(TAGS)
def test_a_topic_is_the_checksum_of_the_case_folded_text(tag: str) -> None:
    expected = zlib.crc32(unicodedata.normalize("NFKC", tag).casefold().encode())
    assert topic(tag) == (expected or 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Python", "pYTHON"), ("STRASSE", "straße"), ("café", "cafe\u0301"), ("ｐｙｔｈｏｎ", "python"), ("ΣΑΣ", "σας")],
)
def test_spellings_of_one_word_are_one_topic(one: str, other: str) -> None:
    assert topic(one) == topic(other)


def test_a_topic_outlives_the_process_that_named_it() -> None:
    assert (topic("python"), topic("日本語")) == (0x_A4D4_B8B8, zlib.crc32("日本語".encode()))


def test_no_topic_is_0() -> None:
    word = "abababbbbabbaabababbabbabbbabbbbaaaaaaaaaaaa"
    assert zlib.crc32(word.encode()) == 0
    assert topic(word) == 1


@given(st.lists(TAGS, max_size=8))
def test_the_first_four_distinct_topics_count(tags: list[str]) -> None:
    expected = list(dict.fromkeys(map(topic, tags)))[:MAX_TOPICS]
    assert list(topics(" ".join(f"#{tag}" for tag in tags))) == expected


def test_traits_are_those_of_the_outline() -> None:
    assert Traits.of(Outline(5, has_media=True, is_reply=False, tagged="a #b")) == (5, True, False, (topic("b"),))
