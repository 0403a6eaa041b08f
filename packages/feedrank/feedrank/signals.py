"""What is predicted of a viewer and a post, and what is observed of posts and authors."""

PREDICTED = ("like", "reply", "repost", "dwell", "negative")
"""The signals: that the viewer likes the post, replies to it, reposts it, looks at it for DWELL_SECONDS or longer, or wants
less like it or hides it. Predictions have one column for each, in this order."""

DWELL_SECONDS = 5.0
"""How long somebody has to look at a post to have dwelt on it."""

OBSERVED = ("impressions", "likes", "reposts", "replies", "dwell_seconds", "negatives")
"""What is summed up of posts and authors, in the order of `feedkit.feature_keys.SIGNALS`."""
IMPRESSIONS, LIKES, REPOSTS, REPLIES, DWELL, NEGATIVES = range(len(OBSERVED))
"""Columns of OBSERVED."""
