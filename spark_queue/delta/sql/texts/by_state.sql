-- How many of some items are in each state, and when the first of them was enqueued.
SELECT f.state, count(*) AS items, min(f.enqueued_at) AS oldest
FROM sq_found f
GROUP BY f.state
ORDER BY f.state
