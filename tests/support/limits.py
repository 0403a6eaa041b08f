"""The limits of the mesh that tests share: so small that small tests reach them, and go beyond."""

THRESHOLD = 4
"""From how many followers an author is pulled."""
LENGTH = 20
"""How many posts a home timeline holds in Redis."""

SETTINGS = {
    "FEED_CELEBRITY_THRESHOLD": str(THRESHOLD),
    "FEED_TIMELINE_LENGTH": str(LENGTH),
    # Whoever has two followers to push to has a large fan-out, cut into chunks.
    "FEED_CHUNK_SIZE": "1",
    "FEED_PULLED_STALENESS_SECONDS": "0.5",
}
