-- What people do with posts, and what they have seen of them. Whoever acts is a user of the service graph, and posts may be
-- erased before what was done with them, so there are no foreign keys: one would also lock the row of a hot post for every
-- like. Kinds and views are the numbers of feed.post.v1.

-- Likes and reposts, as they stand.
CREATE TABLE engagements (
    post_id  bigint      NOT NULL,
    actor_id bigint      NOT NULL,
    at       timestamptz NOT NULL,
    kind     smallint    NOT NULL CHECK (kind IN (1, 2)),  -- 1: like, 2: repost
    PRIMARY KEY (post_id, kind, actor_id)
);

-- By which what somebody did is found and erased.
CREATE INDEX engagements_of_actor ON engagements (actor_id);

-- By which those of a time are read for training. Rows come in the order of time, so their pages' bounds are enough, and
-- likes have next to nothing to do for it.
CREATE INDEX engagements_by_time ON engagements USING brin (at) WITH (autosummarize = on);

-- How many there are of each kind. A count is the sum over its slots, each of which other connections write to, so that
-- those who like a hot post at once do not wait for one another. A slot may be negative, as what was counted in one may be
-- taken back in another. Changed in the transaction of what is counted, so a sum is exact.
CREATE TABLE engagement_counts (
    post_id bigint   NOT NULL,
    count   bigint   NOT NULL,
    kind    smallint NOT NULL CHECK (kind IN (1, 2, 3)),  -- 1: likes, 2: reposts, 3: replies that are not deleted
    slot    smallint NOT NULL CHECK (slot BETWEEN 0 AND 15),
    PRIMARY KEY (post_id, kind, slot)
) WITH (
    -- Rows are updated all the time and nothing indexed changes: with room on its page, a new version of a row needs no
    -- new entry in the index, and the next writer clears the old one away.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05
);

-- What people have against posts. Kept for training, and only for a time.
CREATE TABLE feedback (
    post_id  bigint      NOT NULL,
    actor_id bigint      NOT NULL,
    at       timestamptz NOT NULL,
    kind     smallint    NOT NULL CHECK (kind IN (1, 2)),  -- 1: less like this, 2: hide
    PRIMARY KEY (actor_id, post_id, kind)
);

-- By which the oldest are found and removed.
CREATE INDEX feedback_by_time ON feedback (at);

-- What was seen: one row for each viewer, post, view and UTC day. Kept for training, and only for a time.
CREATE TABLE impressions (
    viewer_id bigint      NOT NULL,
    post_id   bigint      NOT NULL,
    at        timestamptz NOT NULL,  -- when the first of that day was told of
    position  integer     NOT NULL,  -- of that first one; 0: the top
    dwell_ms  integer     NOT NULL,  -- the longest
    day       date        NOT NULL,  -- that of `at`, in UTC
    view      smallint    NOT NULL CHECK (view IN (1, 2)),  -- 1: latest, 2: ranked
    PRIMARY KEY (viewer_id, post_id, day, view)
) WITH (
    -- Room for a longer dwell beside the shorter one.
    fillfactor = 90,
    -- Many rows come and as many go every day: what has gone is to make room before the table has grown by a fifth.
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

-- By which a time is read for training, and the oldest are removed. Its entries repeat, so it is small.
CREATE INDEX impressions_by_day ON impressions (day);

-- Whose erasure has begun. Whoever did something shortly before their account was deleted may be remembered as active by
-- some process for a moment longer, so they are erased once more when that is over, and then forgotten here.
CREATE TABLE erased_authors (
    author_id bigint      PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT now()
);

-- Behind whoever waits for the lock on `posts` everybody waits who reads it. Rather than behind something long, such as a
-- dump, the migration fails, and is to be tried again.
SET LOCAL lock_timeout = '3s';

-- NULL: to none. Without a default the rows stay as they are. Last, because from here to the commit nobody reads `posts`.
ALTER TABLE posts ADD COLUMN reply_to bigint;
