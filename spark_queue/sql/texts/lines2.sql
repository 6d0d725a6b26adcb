-- The same after the first stage.
-- rule again: turns handed out
SELECT u.priority, u.fair_key, max(u.regular) AS regular, max(u.late) AS late
FROM (
  SELECT priority, fair_key, regular, late FROM sq_lines
  UNION ALL
  SELECT priority, fair_key, CASE WHEN NOT overdue THEN slot END, CASE WHEN overdue THEN slot END
  FROM sq_first
) u
GROUP BY u.priority, u.fair_key
