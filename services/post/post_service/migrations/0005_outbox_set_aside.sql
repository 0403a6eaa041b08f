-- Events that Kafka will never take, out of the way of all others. The layout is feedkit.outbox's.
CREATE TABLE outbox_set_aside (
    id           bigint      PRIMARY KEY,  -- what it had in the outbox
    topic        text        NOT NULL,
    key          text        NOT NULL,
    type         text        NOT NULL,
    payload      bytea       NOT NULL,
    headers      jsonb       NOT NULL,
    created_at   timestamptz NOT NULL,
    reason       text        NOT NULL,  -- what Kafka said
    set_aside_at timestamptz NOT NULL DEFAULT now()
);

-- The first rows of a shard, but for those of keys that are held back. The older function stays for relays that know no other.
CREATE FUNCTION outbox_first(of_shard smallint, at_most bigint, but_of_keys text[]) RETURNS SETOF outbox
    LANGUAGE plpgsql STABLE SET enable_bitmapscan = off SET enable_seqscan = off SET enable_sort = off AS $$
BEGIN
    RETURN QUERY SELECT * FROM outbox WHERE shard = of_shard AND key <> ALL (but_of_keys) ORDER BY id LIMIT at_most;
END
$$;
