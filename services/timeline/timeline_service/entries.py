"""Entries of a home timeline: what is known of a post before it is hydrated."""

from typing import NamedTuple


class Entry(NamedTuple):
    """A post's place in a timeline. Entries are ordered by post id, which is the order of time."""

    post_id: int
    author_id: int
