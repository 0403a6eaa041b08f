"""The limits of the mesh that tests share: so small that small tests reach them, and go beyond."""

THRESHOLD = 4
"""From how many followers an author is pulled."""
LENGTH = 20
"""How many posts a home timeline holds in Redis."""
REBUILD_PAUSE_SECONDS = 0.5
"""How long after one wish for a timeline its viewer's reads make no other."""
PULLED_STALENESS_SECONDS = 1.0
"""How long a timeline may not know of a pulled author, or of their post."""

SETTINGS = {
    "FEED_CELEBRITY_THRESHOLD": str(THRESHOLD),
    "FEED_TIMELINE_LENGTH": str(LENGTH),
    # Whoever has two followers to push to has a large fan-out, cut into chunks.
    "FEED_CHUNK_SIZE": "1",
    # More than two followers are more than a page.
    "FEED_GRAPH_STREAM_PAGE": "2",
    # Who has become too small to be pulled is pushed again at once.
    "FEED_LEAVING_INTERVAL_SECONDS": "0.5",
    "FEED_PULLED_STALENESS_SECONDS": str(PULLED_STALENESS_SECONDS),
    "FEED_TIMELINE_REBUILD_PAUSE_SECONDS": str(REBUILD_PAUSE_SECONDS),
}
