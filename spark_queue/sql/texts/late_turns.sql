-- Their turns: the first of a line where the order stands, or a round behind the last that it was
-- given, and each a round behind the one before. The first may have digits that increments have not:
-- so those are added up first.
-- rule: slots of a line
SELECT
  q.seq,
  q.first_turn
    + sum(CASE WHEN q.nth = 1 THEN 0e0 ELSE q.inc END)
      OVER (PARTITION BY q.priority, q.fair_key ORDER BY q.seq ROWS UNBOUNDED PRECEDING) AS turn
FROM (
  SELECT
    o.*,
    max(CASE WHEN o.nth = 1 THEN greatest(o.v, o.late + o.inc) END)
      OVER (PARTITION BY o.priority, o.fair_key) AS first_turn
  FROM sq_overdue o
) q
