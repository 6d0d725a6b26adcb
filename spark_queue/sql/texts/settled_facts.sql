-- The facts of the rows of a settle, by the state they come to; those that are lost to their holder
-- come to none.
SELECT
  CASE WHEN s.is_held THEN s.state END AS state, count(*) AS items,
  count(CASE WHEN s.is_held AND s.state = 'ready' AND s.outcome IN ('nack', 'lose') THEN 1 END) AS failed
FROM sq_outcome_rows s
GROUP BY CASE WHEN s.is_held THEN s.state END
