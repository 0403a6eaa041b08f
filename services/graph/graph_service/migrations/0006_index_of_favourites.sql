-- No transaction: the index is made while people follow. A try that failed leaves one behind that is good for nothing.
DROP INDEX CONCURRENTLY IF EXISTS follows_favourites;

-- One's favourites, few among thousands of follows: those of the newest follow first, their number, and what the viewer's
-- context says of them, from the index alone.
CREATE INDEX CONCURRENTLY follows_favourites ON follows (follower_id, seq DESC) INCLUDE (followee_id) WHERE favourite;
