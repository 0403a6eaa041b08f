-- What was written. The creation time is in the id (feed.post.v1), so no column repeats it.
CREATE TABLE posts (
    id        bigint  PRIMARY KEY,
    author_id bigint  NOT NULL,  -- a user of the service graph: another database, so no foreign key
    content   text    NOT NULL,
    media     jsonb   NOT NULL,  -- an array of {"url","type","width","height","alt_text"}, in the author's order
    edited_at timestamptz,       -- NULL: never
    -- A deleted post keeps its row: its id is never free again, and its author may delete it once more.
    deleted   boolean NOT NULL DEFAULT false
) WITH (
    -- A page is read from the index alone once vacuum has marked its heap pages all-visible. Rows are rarely changed
    -- after they were written, so the usual fifth of a large table would be far too long to wait for that.
    autovacuum_vacuum_insert_scale_factor = 0.01,
    autovacuum_analyze_scale_factor = 0.02
);

-- Every list of an author's posts, and each probe of the pull query.
CREATE INDEX posts_of_author ON posts (author_id, id DESC) WHERE NOT deleted;

-- Which post a retried request made.
CREATE TABLE idempotency_keys (
    author_id   bigint      NOT NULL,
    key         text        COLLATE "C" NOT NULL,
    fingerprint bytea       NOT NULL,  -- SHA-256 of the canonical request
    post_id     bigint,                -- NULL only inside the transaction that takes the key
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (author_id, key)
);

CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- Who may make ids with which worker number. All numbers that there can be; rows are only ever updated.
CREATE TABLE id_workers (
    worker     smallint    PRIMARY KEY CHECK (worker BETWEEN 0 AND 1023),
    holder     uuid,                            -- one lease, not one process; NULL: free
    expires_at timestamptz NOT NULL DEFAULT '-infinity',
    ceiling_ms bigint      NOT NULL DEFAULT 0   -- Unix milliseconds; no id of this worker is made at or above it
) WITH (fillfactor = 50);

INSERT INTO id_workers (worker) SELECT generate_series(0, 1023);

-- Events, committed with the change that they tell of. The layout is feedkit.outbox's.
CREATE TABLE outbox (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic      text        NOT NULL,
    key        text        NOT NULL,  -- the record's key: what keeps its order
    type       text        NOT NULL,  -- full name of the protobuf message
    payload    bytea       NOT NULL,
    headers    jsonb       NOT NULL,  -- trace context of the request that caused the event
    created_at timestamptz NOT NULL DEFAULT now()
);
