-- The first items that were refused when they were enqueued again, and who has their key.
SELECT r.origin, r.duplicate_of FROM sq_rejected r ORDER BY r.origin LIMIT $limit
