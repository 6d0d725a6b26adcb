-- Members of groups that the order has yet to reach, with their turns.
-- rule: place of a new member
-- rule again: weight of a key
SELECT q.*
FROM (
  SELECT
    m.*,
    coalesce(w.pin_turn, 0e0) + (m.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS turn,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.seq, 0) AS s
  FROM sq_members m
  LEFT JOIN sq_weights w ON m.fair_key = w.fair_key AND m.priority = w.priority
  LEFT JOIN sq_pointers p ON m.priority = p.priority
) q
WHERE q.turn > q.v OR (q.turn = q.v AND q.seq > q.s)
