-- The slots of those lines, in order: tags that are on time, and a turn further for each overdue.
-- rule: slots of a line
SELECT
  t.priority, t.fair_key, t.turn, t.overdue,
  row_number() OVER (PARTITION BY t.priority, t.fair_key ORDER BY t.turn, t.overdue, t.seq) AS nth
FROM (
  SELECT
    o.priority, o.fair_key, o.seq, o.overdue,
    CASE WHEN o.overdue THEN r.turn ELSE o.tag END AS turn
  FROM sq_of_late o
  LEFT JOIN sq_late_turns r ON o.seq = r.seq
) t
