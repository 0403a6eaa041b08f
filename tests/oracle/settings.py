"""The limits of the mesh on which programmes run: everything that has an end is so small that programmes go beyond it."""

import limits

SETTINGS = {
    **limits.SETTINGS,
    "FEED_OWN_LENGTH": "5",
    "FEED_RECENTS_LENGTH": "7",
    "FEED_CANDIDATES": "8",
    # The line moves down, and up again, while processes stand still.
    "FEED_CELEBRITY_FLOOR": "2",
    "FEED_LAG_LIMIT_SECONDS": "1",
    "FEED_LAG_CLEAR_SECONDS": "0.5",
    "FEED_LAG_CLEAR_FOR_SECONDS": "2",
    "FEED_CELEBRITY_STEP_SECONDS": "0.3",
    "FEED_LEADER_SECONDS": "1",
    "FEED_KAFKA_SESSION_SECONDS": "2",
}
