-- The same on the scale of their key's weight: `tag` is the turn of the stored tag, (`v`, `s`) the
-- turn and the item that the order has reached. What only entered counts where the checkpoint does
-- not know it, as far as the claim looks.
-- rule: weight of a key, untouched item
SELECT q.*
FROM (
  SELECT
    u.*,
    coalesce(w.pin_turn, 0e0) + (u.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS tag,
    greatest($unit, u.cost / coalesce(w.weight, 1e0) + $rounder - $rounder) AS inc,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.seq, 0) AS s,
    coalesce(p.checkpoint_turn, 0e0) AS checkpoint_turn,
    coalesce(p.checkpoint_seq, 0) AS checkpoint_seq
  FROM sq_unfinished u
  LEFT JOIN sq_weights w ON u.fair_key = w.fair_key AND u.priority = w.priority
  LEFT JOIN sq_pointers p ON u.priority = p.priority
) q
CROSS JOIN sq_asked a
WHERE
  q.step IS NULL
  OR (
    q.step > a.since_step AND q.step <= a.queue_step
    AND (
      q.step > a.checkpoint_step
      OR q.tag > q.checkpoint_turn
      OR (q.tag = q.checkpoint_turn AND q.seq > q.checkpoint_seq)
    )
    AND (a.reach IS NULL OR q.tag <= q.v + a.reach)
  )
