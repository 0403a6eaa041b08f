"""What a page of an author's posts shows, and where it ends."""

from collections.abc import Collection

from feed.hydrate.v1 import hydrate_pb2
from feedkit.cursor import Position
from feedkit.errors import Unavailable

# Withheld for what becomes of the author, and not of one post: then so are all others.
_OF_THE_AUTHOR = frozenset(
    (
        hydrate_pb2.WITHHELD_REASON_AUTHOR_NOT_FOUND,
        hydrate_pb2.WITHHELD_REASON_AUTHOR_SUSPENDED,
        hydrate_pb2.WITHHELD_REASON_BLOCKED,
    )
)


def cut(
    hydrations: Collection[hydrate_pb2.Hydration], next_page_token: str
) -> tuple[list[hydrate_pb2.HydratedPost], str]:
    """The posts to show and the cursor after them.

    Where the author's posts are withheld as a whole, there is nothing, and no way on: not an endless row of empty pages.
    What is withheld is left out, and the page ends before the first post of which it is not known whether it may be shown:
    its reader comes back for that one. Raises Unavailable where that is the very first, so that there is no way on.
    """
    if any(hydration.withheld in _OF_THE_AUTHOR for hydration in hydrations):
        return [], ""
    posts: list[hydrate_pb2.HydratedPost] = []
    last_post_id = 0
    for hydration in hydrations:
        if hydration.HasField("unavailable"):
            if not last_post_id:
                raise Unavailable.of_dependency(hydration.unavailable.dependency)
            return posts, str(Position.of(last_post_id))
        if hydration.HasField("post"):
            posts.append(hydration.post)
        last_post_id = hydration.post_id
    return posts, next_page_token
