-- Accepted rows with their priority, which never rises within a group.
-- rule: place of a new member
SELECT
  q.*,
  CASE WHEN q.group_key IS NULL THEN q.priority ELSE least(q.least_priority, q.end_priority) END AS lowest
FROM (
  SELECT
    d.*, e.priority AS end_priority, e.turn AS end_turn,
    min(d.priority) OVER (
      PARTITION BY d.group_key, CASE WHEN d.group_key IS NULL THEN d.seq END
      ORDER BY d.seq ROWS UNBOUNDED PRECEDING
    ) AS least_priority
  FROM sq_accepted d
  LEFT JOIN sq_ends e ON d.group_key = e.group_key
) q
