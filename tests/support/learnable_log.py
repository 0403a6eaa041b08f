"""A log out of which something can be learned."""

import numpy as np
from feedrank.dataset import ENGAGEMENT, IMPRESSION, LIKE, POST, Log, in_time_order

DAY_MS = 86_400_000
BEGIN_MS = 20_000 * DAY_MS


def log_of(impressions: int) -> Log:
    """Of some days: who sees a picture looks for long, and sometimes likes it. Half is seen in each view."""
    chance = np.random.default_rng(1)
    posts = np.zeros(400, POST)
    posts["post"], posts["author"] = np.arange(400) + 1, chance.integers(1, 20, 400)
    posts["at"], posts["media"] = BEGIN_MS + np.arange(400), chance.random(400) < 0.5
    seen = np.zeros(impressions, IMPRESSION)
    seen["viewer"], seen["post"] = chance.integers(100, 140, impressions), chance.integers(1, 401, impressions)
    seen["at"] = BEGIN_MS + DAY_MS + np.sort(chance.integers(0, 5 * DAY_MS, impressions))
    media = posts["media"][seen["post"] - 1]
    seen["dwell_ms"] = np.where(chance.random(impressions) < np.where(media, 0.7, 0.1), 8_000, 1_000)
    seen["ranked"] = chance.random(impressions) < 0.5
    liked = seen[media & (chance.random(impressions) < 0.3)]
    engagements = np.zeros(len(liked) + 1, ENGAGEMENT)
    for theirs, ours in (("actor", "viewer"), ("post", "post"), ("at", "at")):
        engagements[theirs][:-1] = liked[ours]
    # Something long after, so that of all before it is known what followed.
    engagements[-1] = (99, 1, BEGIN_MS + 30 * DAY_MS, LIKE)
    engagements["kind"] = LIKE
    return Log(
        posts=posts,
        impressions=seen,
        engagements=in_time_order(engagements),
        favourites=np.zeros((0, 2), np.int64),
        pulled=np.zeros(0, np.int64),
    )
