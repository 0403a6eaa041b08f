-- How accounts stand, who blocks and who mutes whom, and leaving the index of pulled authors. All of it may be there while
-- processes from before it still run. They know nothing of it: through them somebody may still follow across a block, which
-- shows neither anything of the other.

-- 0 active, 1 suspended, 2 deleted. A deleted user's row stays for ever, as a tombstone without a name. Every row has the
-- default, so that there is nothing to validate.
ALTER TABLE users
    ADD COLUMN standing smallint NOT NULL DEFAULT 0,
    ADD CONSTRAINT users_standing_check CHECK (standing IN (0, 1, 2)) NOT VALID;

-- Written under the locks of both users' rows, so that no follow between the two comes to stand beside a block.
CREATE TABLE blocks (
    blocker_id bigint      NOT NULL,
    blocked_id bigint      NOT NULL CHECK (blocked_id <> blocker_id),
    -- As in `follows`: the order of the list, and the position at which a page goes on.
    seq        bigint      GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (blocker_id, blocked_id)
);
CREATE INDEX blocks_of_blocker ON blocks (blocker_id, seq DESC) INCLUDE (blocked_id);
CREATE INDEX blocks_of_blocked ON blocks (blocked_id, seq DESC) INCLUDE (blocker_id);

-- Written under the lock of the muter's row.
CREATE TABLE mutes (
    muter_id   bigint      NOT NULL,
    muted_id   bigint      NOT NULL CHECK (muted_id <> muter_id),
    seq        bigint      GENERATED ALWAYS AS IDENTITY,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (muter_id, muted_id)
);
CREATE INDEX mutes_of_muter ON mutes (muter_id, seq DESC) INCLUDE (muted_id);
CREATE INDEX mutes_of_muted ON mutes (muted_id, seq DESC) INCLUDE (muter_id);

-- Authors who were in the index of pulled authors and are not. A table of its own, and not a mark on the row in
-- `pulled_authors`: whoever does not know of it has to find the author outside, or their posts would reach nobody.
CREATE TABLE pulled_authors_left (
    author_id    bigint PRIMARY KEY,
    -- The version of the index that the author went with.
    left_version bigint NOT NULL,
    -- The author's sequence when they left. It goes on from there when they enter again, so that nobody takes them out by
    -- what was true the last time.
    sequence     bigint NOT NULL
);
CREATE INDEX pulled_authors_left_by_version ON pulled_authors_left (left_version, author_id);
