-- The items that have waited longest.
SELECT t.* FROM sq_turned t WHERE t.state = 'ready' ORDER BY t.seq LIMIT $limit
