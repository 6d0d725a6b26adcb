-- What each line was served. Where its key gets another weight, turns move around the pointer.
-- rule again: weight of a key
SELECT
  r.priority, r.fair_key, r.overdue,
  CASE WHEN n.weight <> coalesce(w.weight, 1e0)
    THEN coalesce(p.turn, 0e0)
      + (r.turn - coalesce(p.turn, 0e0)) * (coalesce(w.weight, 1e0) / n.weight)
    ELSE r.turn
  END AS turn
FROM (
  SELECT k.priority, k.fair_key, false AS overdue, k.regular AS turn FROM sq_lines k
  UNION ALL
  SELECT k.priority, k.fair_key, true AS overdue, k.late AS turn FROM sq_lines k
) r
LEFT JOIN sq_weights w ON r.fair_key = w.fair_key AND r.priority = w.priority
LEFT JOIN sq_weights_after n ON r.fair_key = n.fair_key AND r.priority = n.priority
LEFT JOIN sq_pointers p ON r.priority = p.priority
WHERE r.turn IS NOT NULL
