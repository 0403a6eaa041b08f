-- Who there is, who follows whom, and who was here last. Users are never physically deleted, so a follow always
-- leads from somebody to somebody.

CREATE TABLE users (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name            text        NOT NULL,
    -- How many rows of `follows` have this user as follower. It is held against the limit, and its row is the lock
    -- under which all changes to one user's followees happen one after another.
    following_count integer     NOT NULL DEFAULT 0 CHECK (following_count >= 0),
    created_at      timestamptz NOT NULL DEFAULT now()
)
-- Room on each page for the new version of a row, so that counting touches no index.
WITH (fillfactor = 80);

-- There is deliberately no foreign key to users. Its check takes a FOR KEY SHARE lock on the followee, which writes to
-- that user's row for each follow: everybody who follows a celebrity would queue up at one row. As users are never
-- deleted, a plain read before the insert proves the same.
CREATE TABLE follows (
    follower_id bigint      NOT NULL,
    followee_id bigint      NOT NULL CHECK (followee_id <> follower_id),
    -- Grows with time and never comes twice, not even when a follow is ended and made again: the order of the lists,
    -- and the position at which a page or a stream goes on.
    seq         bigint      GENERATED ALWAYS AS IDENTITY,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- Also answers, from the index alone, whom a viewer follows in ascending order.
    PRIMARY KEY (follower_id, followee_id)
);

-- Followers and followees, the newest first, from the index alone.
CREATE INDEX follows_of_followee ON follows (followee_id, seq DESC) INCLUDE (follower_id);
CREATE INDEX follows_of_follower ON follows (follower_id, seq DESC) INCLUDE (followee_id);

-- How many followers a user has, as parts whose sum is the count. A follower's id decides which part counts it, so the
-- followers of a celebrity spread over several rows instead of waiting for one another at a single one.
CREATE TABLE follower_counts (
    user_id bigint   NOT NULL,
    shard   smallint NOT NULL,
    count   bigint   NOT NULL CHECK (count >= 0),
    PRIMARY KEY (user_id, shard)
)
WITH (fillfactor = 50);

-- The last day, in UTC, on which a user was active.
CREATE TABLE activity (
    user_id bigint PRIMARY KEY,
    seen_on date   NOT NULL
)
WITH (fillfactor = 80);

-- Events that are committed together with the change that they tell of. Ids are taken before commit, so a smaller one
-- may become visible after a larger one.
CREATE TABLE outbox (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic      text        NOT NULL,
    key        text        NOT NULL, -- the record's key: what keeps its order
    type       text        NOT NULL, -- full name of the protobuf message
    payload    bytea       NOT NULL,
    headers    jsonb       NOT NULL, -- trace context of the request that caused the event
    created_at timestamptz NOT NULL DEFAULT now()
);
