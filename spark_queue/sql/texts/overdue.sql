-- What is overdue, line by line.
-- rule: slots of a line
SELECT
  p.seq, p.priority, p.fair_key, p.v, p.late, p.inc,
  row_number() OVER (PARTITION BY p.priority, p.fair_key ORDER BY p.seq) AS nth
FROM sq_placed p
WHERE p.overdue
