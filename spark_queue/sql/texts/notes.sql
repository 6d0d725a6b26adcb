-- How many items are in each state, and of how many there is more to say.
SELECT
  n.state, count(*) AS items,
  count(CASE WHEN n.lapsed THEN 1 END) AS lapsed,
  count(CASE WHEN n.retrying THEN 1 END) AS retrying,
  count(CASE WHEN n.delayed THEN 1 END) AS delayed,
  count(CASE WHEN n.redriven THEN 1 END) AS redriven
FROM sq_noted n
GROUP BY n.state
ORDER BY n.state
