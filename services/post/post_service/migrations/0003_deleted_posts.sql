-- No transaction: the index is made while posts are written. A try that failed leaves one behind that is good for nothing.
DROP INDEX CONCURRENTLY IF EXISTS deleted_posts_of_author;

-- By which the deleted posts of somebody who is gone are found and erased, as the standing ones are by `posts_of_author`.
CREATE INDEX CONCURRENTLY deleted_posts_of_author ON posts (author_id) WHERE deleted;
