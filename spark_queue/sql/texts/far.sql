-- Untouched items beyond reach.
-- rule: reach of a claim
-- rule again: weight of a key, untouched item
SELECT q.seq, q.priority, q.fair_key, q.group_key
FROM (
  SELECT
    i.seq, i.step, i.priority, i.fair_key, i.group_key,
    coalesce(w.pin_turn, 0e0) + (i.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS tag,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.checkpoint_turn, 0e0) AS checkpoint_turn,
    coalesce(p.checkpoint_seq, 0) AS checkpoint_seq
  FROM sq_waiting i
  LEFT JOIN sq_latest l ON i.seq = l.seq
  LEFT JOIN sq_weights w ON i.fair_key = w.fair_key AND i.priority = w.priority
  LEFT JOIN sq_pointers p ON i.priority = p.priority
  WHERE l.seq IS NULL
) q
CROSS JOIN sq_asked a
WHERE
  q.step > a.since_step AND q.step <= a.queue_step
  AND (
    q.step > a.checkpoint_step
    OR q.tag > q.checkpoint_turn
    OR (q.tag = q.checkpoint_turn AND q.seq > q.checkpoint_seq)
  )
  AND q.tag > q.v + a.reach
