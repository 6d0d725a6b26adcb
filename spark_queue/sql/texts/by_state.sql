-- How many of some items are in each state.
SELECT f.state, count(*) AS items
FROM sq_found f
GROUP BY f.state
ORDER BY f.state
