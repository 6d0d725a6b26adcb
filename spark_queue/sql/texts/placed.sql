-- What may start, and whether the order has passed it.
-- rule: overdue item
SELECT
  e.*, k.late,
  e.tag < e.v OR (e.tag = e.v AND e.seq <= e.s) OR coalesce(e.tag <= k.regular, false) AS overdue
FROM sq_eligible e
LEFT JOIN sq_lines k ON e.priority = k.priority AND e.fair_key IS NOT DISTINCT FROM k.fair_key
