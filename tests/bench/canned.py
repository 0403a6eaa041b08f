"""Answers of the size that real ones have: 20 posts of some 300 characters by 20 authors, a viewer who follows 300."""

import json

from feed.hydrate.v1 import hydrate_pb2
from feed.post.v1 import post_pb2

PAGE = 20
AUTHORS = 20
FOLLOWEES = 300
FIRST_ID = 7_000_000_000_000_000_000 >> 4
CONTENT = "The quick brown fox jumps over the lazy dog, and nobody who saw it would ever tell. " * 4


def post(number: int) -> post_pb2.Post:
    """The post at a place of the page."""
    return post_pb2.Post(
        id=FIRST_ID - number, author_id=number % AUTHORS + 1, content=CONTENT, created_at_ms=1_767_225_600_000 - number
    )


def hydrated_post(number: int) -> hydrate_pb2.HydratedPost:
    """The same with its author's name."""
    counts = post_pb2.EngagementCounts(likes=12, reposts=3, replies=1)
    return hydrate_pb2.HydratedPost(post=post(number), author_name="Ada Lovelace", counts=counts)


FEED_JSON = json.dumps(
    {
        "items": [
            {
                "id": str(FIRST_ID - number),
                "authorId": str(number % AUTHORS + 1),
                "author": {"id": str(number % AUTHORS + 1), "name": "Ada Lovelace"},
                "content": CONTENT,
                "media": [],
                "createdAt": "2026-01-01T00:00:00.000Z",
                "editedAt": None,
                "replyTo": None,
                "counts": {"likes": 12, "reposts": 3, "replies": 1},
            }
            for number in range(PAGE)
        ],
        "nextCursor": f"1767225600000:{FIRST_ID - PAGE}",
        "view": "latest",
        "notice": None,
        "insertions": [],
    }
).encode()
