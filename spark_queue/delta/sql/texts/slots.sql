-- The slots of those lines, in order: tags that are on time, and a turn further for each overdue.
SELECT
  t.priority, t.fair_key, t.turn, t.overdue,
  row_number() OVER (PARTITION BY t.priority, t.fair_key ORDER BY t.turn, t.overdue, t.seq) AS nth
FROM (
  SELECT o.priority, o.fair_key, o.seq, o.tag AS turn, o.overdue FROM sq_of_late o WHERE NOT o.overdue
  UNION ALL
  SELECT
    o.priority, o.fair_key, o.seq,
    sum(CASE WHEN o.first THEN greatest(o.v, o.late + o.inc) ELSE o.inc END)
      OVER (PARTITION BY o.priority, o.fair_key ORDER BY o.seq ROWS UNBOUNDED PRECEDING) AS turn,
    o.overdue
  FROM (
    SELECT f.*, row_number() OVER (PARTITION BY f.priority, f.fair_key ORDER BY f.seq) = 1 AS first
    FROM sq_of_late f WHERE f.overdue
  ) o
) t
