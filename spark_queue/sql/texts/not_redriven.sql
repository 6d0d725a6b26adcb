-- Of some items those that were not enqueued again.
SELECT m.*
FROM sq_meant m
LEFT JOIN sq_successors r ON m.seq = r.origin
WHERE r.seq IS NULL
