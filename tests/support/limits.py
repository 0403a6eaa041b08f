"""The limits of the mesh that tests share: so small that small tests reach them, and go beyond."""

THRESHOLD = 4
"""From how many followers an author is pulled."""
LENGTH = 20
"""How many posts a home timeline holds in Redis."""
REBUILD_PAUSE_SECONDS = 0.5
"""How long after one wish for a timeline its viewer's reads make no other."""

SETTINGS = {
    "FEED_CELEBRITY_THRESHOLD": str(THRESHOLD),
    "FEED_TIMELINE_LENGTH": str(LENGTH),
    # Whoever has two followers to push to has a large fan-out, cut into chunks.
    "FEED_CHUNK_SIZE": "1",
    "FEED_PULLED_STALENESS_SECONDS": "1",
    "FEED_TIMELINE_REBUILD_PAUSE_SECONDS": str(REBUILD_PAUSE_SECONDS),
}
