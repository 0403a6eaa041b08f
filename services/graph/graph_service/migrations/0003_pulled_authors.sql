-- Authors whose posts are pulled by those who read instead of pushed by those who write. Who is in here was found to have
-- too many followers at least once, and some of their posts were perhaps never pushed.
CREATE TABLE pulled_authors (
    author_id       bigint      PRIMARY KEY,
    -- The version of this index that the author came with: what a reader who knows an earlier one still has to learn.
    entered_version bigint      NOT NULL,
    -- How often it was decided that a post of this author is pulled. Whoever wants to take the author out can tell from it
    -- whether that has happened again meanwhile.
    sequence        bigint      NOT NULL DEFAULT 1,
    decided_at      timestamptz NOT NULL DEFAULT now()
)
WITH (fillfactor = 50);

-- Who entered since a version, from the index alone.
CREATE INDEX pulled_authors_by_version ON pulled_authors (entered_version, author_id);

-- One row: the latest version of the index. Whoever lets authors in holds it until they commit, so that versions become
-- visible in their order, and a reader who has seen one has seen all before it.
CREATE TABLE pulled_authors_version (
    single  boolean PRIMARY KEY DEFAULT true CHECK (single),
    version bigint  NOT NULL
)
WITH (fillfactor = 50);

INSERT INTO pulled_authors_version (version) VALUES (0);
