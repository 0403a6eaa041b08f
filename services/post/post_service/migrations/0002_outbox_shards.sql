-- The outbox gets its relays. The layout is feedkit.outbox's; feedkit.outbox_relay tells how they work.

-- What keeps its order stays together: all events of a key are in one shard, and one relay at a time publishes a shard.
ALTER TABLE outbox
    ADD COLUMN shard smallint NOT NULL GENERATED ALWAYS AS ((hashtext(key) & 7)::smallint) STORED,
    DROP CONSTRAINT outbox_pkey,
    ADD PRIMARY KEY (shard, id);

-- Rows live for milliseconds, so what is dead would soon outgrow what is alive many times.
ALTER TABLE outbox SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The first rows of a shard. Always in the order of the index: any other plan looks at all that is dead each time, while
-- this one marks it and steps over it the next time.
CREATE FUNCTION outbox_first(of_shard smallint, at_most bigint) RETURNS SETOF outbox LANGUAGE plpgsql STABLE
    SET enable_bitmapscan = off SET enable_seqscan = off SET enable_sort = off AS $$
BEGIN
    RETURN QUERY SELECT * FROM outbox WHERE shard = of_shard ORDER BY id LIMIT at_most;
END
$$;

-- Wakes the relays at commit. A trigger, so that it can be disabled where commits are too many for it (see the README).
CREATE FUNCTION outbox_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('outbox', shard::text) FROM appended GROUP BY shard;
    RETURN NULL;
END
$$;
CREATE TRIGGER outbox_notify AFTER INSERT ON outbox REFERENCING NEW TABLE AS appended
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_notify();

-- The relays that are alive, by which each knows its fair share of the shards.
CREATE TABLE outbox_relays (
    id         uuid        PRIMARY KEY,
    expires_at timestamptz NOT NULL
);

-- Who publishes which shard. Rows are only ever updated.
CREATE TABLE outbox_leases (
    shard      smallint    PRIMARY KEY CHECK (shard BETWEEN 0 AND 7),
    holder     uuid,                                       -- NULL: nobody
    expires_at timestamptz NOT NULL DEFAULT '-infinity'
) WITH (fillfactor = 50);

INSERT INTO outbox_leases (shard) SELECT generate_series(0, 7);
