-- What a step has written, and how many of its items a limit dropped.
SELECT
  w.kind, w.state, count(*) AS items,
  count(CASE WHEN w.state = 'cancelled' AND w.error IS NOT NULL THEN 1 END) AS dropped
FROM sq_written w
GROUP BY w.kind, w.state
