-- How many items were dropped because a reader was full, or too far behind.
SELECT count(*) AS items
FROM sq_states s
WHERE s.kind = 'item' AND s.state = 'cancelled' AND s.error LIKE 'dropped: the reader is %'
