-- The last member of each group now. One engine skips nulls in max_by, the other does not.
SELECT
  r.group_key,
  max_by(r.lowest, r.seq) AS priority,
  CASE WHEN NOT max_by(r.fair_key IS NULL, r.seq) THEN max_by(coalesce(r.fair_key, ''), r.seq) END AS fair_key,
  max_by(r.place, r.seq) AS round,
  max(r.seq) AS seq
FROM sq_raised r
WHERE r.group_key IS NOT NULL
GROUP BY r.group_key
