-- Their stored tags, by which turns never fall within a group and priority. To a turn and back is
-- not the same to the last digit: only what is raised goes that way, and not what is raised by it.
-- rule: place of a new member
-- rule again: weight of a key
SELECT
  r.seq, r.lowest, r.fair_key, r.group_key, r.given,
  CASE
    WHEN r.group_key IS NOT NULL AND r.highest > r.turn
      THEN r.pin_tag + (r.highest - r.pin_turn) * r.weight
    ELSE r.stored
  END AS place
FROM (
  SELECT
    q.*,
    greatest(
      max(q.turn) OVER (
        PARTITION BY q.group_key, CASE WHEN q.group_key IS NULL THEN q.seq END, q.lowest
        ORDER BY q.seq ROWS UNBOUNDED PRECEDING
      ),
      CASE WHEN q.end_priority = q.lowest THEN q.end_turn END
    ) AS highest
  FROM (
    SELECT
      t.*,
      coalesce(w.weight, 1e0) AS weight,
      coalesce(w.pin_tag, 0e0) AS pin_tag,
      coalesce(w.pin_turn, 0e0) AS pin_turn,
      coalesce(w.pin_turn, 0e0)
        + (t.stored - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS turn
    FROM sq_tagged t
    LEFT JOIN sq_weights w ON t.fair_key = w.fair_key AND t.lowest = w.priority
  ) q
) r
