-- stats(state, items, redriven, oldest instant)
-- How many items are in each state, how many of them were enqueued again, and since when the first waits.
SELECT f.state, count(*) AS items, count(f.successor) AS redriven, min(f.waits_since) AS oldest
FROM sq_stood f
GROUP BY f.state
ORDER BY f.state
