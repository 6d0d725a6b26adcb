-- Those that are earlier in a line that takes its turns by seq.
-- rule: reach of a claim
SELECT f.seq, f.group_key
FROM sq_far f
JOIN (
  SELECT p.priority, p.fair_key, max(p.seq) AS upto
  FROM sq_placed p
  GROUP BY p.priority, p.fair_key
  HAVING bool_or(p.overdue)
) n ON f.priority = n.priority AND f.fair_key IS NOT DISTINCT FROM n.fair_key AND f.seq < n.upto
