-- Their turns, in an engine that adds a running sum one by one: each a round behind the one before.
-- rule again: slots of a line
SELECT
  o.seq,
  sum(CASE WHEN o.nth = 1 THEN greatest(o.v, o.late + o.inc) ELSE o.inc END)
    OVER (PARTITION BY o.priority, o.fair_key ORDER BY o.seq ROWS UNBOUNDED PRECEDING) AS turn
FROM sq_overdue o
