-- The lines that rows enter: each begins where the order stands, or behind its last tag.
-- rule: tag of a new item
-- rule again: weight of a key
SELECT
  l.priority, l.fair_key, l.total,
  greatest(
    coalesce(w.pin_tag, 0e0)
      + (coalesce(p.turn, 0e0) - coalesce(w.pin_turn, 0e0)) * coalesce(w.weight, 1e0),
    coalesce(k.tag, 0e0)
  ) AS start_tag
FROM (
  SELECT d.lowest AS priority, d.fair_key, sum(greatest($unit, d.cost + $rounder - $rounder)) AS total
  FROM sq_lowered d
  WHERE d.round IS NULL
  GROUP BY d.lowest, d.fair_key
) l
LEFT JOIN sq_weights w ON l.fair_key = w.fair_key AND l.priority = w.priority
LEFT JOIN sq_pointers p ON l.priority = p.priority
LEFT JOIN (
  SELECT r.priority, r.fair_key, max(r.round) AS tag
  FROM sq_line_rows r
  GROUP BY r.priority, r.fair_key
) k ON l.priority = k.priority AND l.fair_key IS NOT DISTINCT FROM k.fair_key
