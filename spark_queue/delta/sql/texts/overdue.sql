-- What is overdue, line by line. Its turns are sums that are added one by one: an engine may add in
-- another order, which the last digit shows.
-- rule: slots of a line
SELECT
  p.seq, p.priority, p.fair_key, p.v, p.late, p.inc,
  row_number() OVER (PARTITION BY p.priority, p.fair_key ORDER BY p.seq) AS nth
FROM sq_placed p
WHERE p.overdue
ORDER BY p.priority, p.fair_key, p.seq
