-- Accepted rows, line by line: priority never rises within a group. A line begins where the order
-- stands, or behind its last tag.
-- rule: tag of a new item, place of a new member
SELECT
  o.pos, o.priority, o.fair_key, o.group_key, o.cost, o.end_priority, o.end_turn,
  row_number() OVER (PARTITION BY o.priority, o.fair_key ORDER BY o.pos) AS nth,
  greatest(
    coalesce(w.pin_tag, 0e0)
      + (coalesce(p.turn, 0e0) - coalesce(w.pin_turn, 0e0)) * coalesce(w.weight, 1e0),
    coalesce(k.tag, 0e0)
  ) AS start
FROM (
  SELECT
    d.pos, d.fair_key, d.group_key, d.cost, e.priority AS end_priority, e.turn AS end_turn,
    CASE WHEN d.group_key IS NULL THEN d.priority
      ELSE least(min(d.priority) OVER (PARTITION BY d.group_key ORDER BY d.pos), e.priority)
    END AS priority
  FROM sq_decided d
  LEFT JOIN sq_ends e ON d.group_key = e.group_key
  WHERE d.duplicate_of IS NULL
) o
LEFT JOIN sq_weights w ON o.fair_key = w.fair_key AND o.priority = w.priority
LEFT JOIN sq_pointers p ON o.priority = p.priority
LEFT JOIN sq_line_ends k ON o.priority = k.priority AND o.fair_key IS NOT DISTINCT FROM k.fair_key
ORDER BY o.priority, o.fair_key, o.pos
