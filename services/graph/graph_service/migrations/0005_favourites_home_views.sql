-- Whom somebody would rather see than the others they follow, and the view in which somebody wants to be shown their home
-- timeline. All of it may be there while processes from before it still run, which know nothing of it: a follow that one of
-- them ends takes the favourite with it.

-- Behind whoever waits for a lock on `follows` or `users` everybody waits. Rather than behind something long, such as a dump,
-- the migration fails, and is to be tried again.
SET LOCAL lock_timeout = '3s';

-- A mark on the follow, with which it ends. Every row has the default, so that nothing is rewritten.
ALTER TABLE follows
    ADD COLUMN favourite boolean NOT NULL DEFAULT false;

-- 0 latest, 1 ranked. On the row that the viewer's context reads anyway.
ALTER TABLE users
    ADD COLUMN home_view smallint NOT NULL DEFAULT 0,
    ADD CONSTRAINT users_home_view_check CHECK (home_view IN (0, 1)) NOT VALID;

-- Every choice that changed something, for figures of how many come to a view and leave it again. Written under the lock of
-- the user's row, so that the times of one user's choices have the order in which they were made.
CREATE TABLE view_choices (
    user_id   bigint      NOT NULL,
    seq       bigint      GENERATED ALWAYS AS IDENTITY,
    view      smallint    NOT NULL,
    chosen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_id, seq)
);

-- The choices of a time, whoever made them.
CREATE INDEX view_choices_by_time ON view_choices (chosen_at) INCLUDE (user_id, view);
