-- The facts of the rows of a settle, by the state they come to.
SELECT
  s.state, count(*) AS items,
  count(CASE WHEN s.state = 'ready' AND s.outcome IN ('nack', 'lose') THEN 1 END) AS failed
FROM sq_outcome_rows s
WHERE s.is_held
GROUP BY s.state
