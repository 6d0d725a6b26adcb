-- Of some items, those with which a reader is not done.
-- rule again: weight of a key, newest row of an item, untouched item
SELECT c.seq
FROM (
  SELECT
    u.seq, u.step, l.seq AS touched, l.state,
    coalesce(w.pin_turn, 0e0) + (u.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS turn,
    coalesce(p.checkpoint_turn, 0e0) AS checkpoint_turn,
    coalesce(p.checkpoint_seq, 0) AS checkpoint_seq
  FROM sq_candidates u
  LEFT JOIN sq_latest l ON u.seq = l.seq
  LEFT JOIN sq_weights w ON u.fair_key = w.fair_key AND u.priority = w.priority
  LEFT JOIN sq_pointers p ON u.priority = p.priority
) c
CROSS JOIN sq_asked a
WHERE
  c.step > a.since_step
  AND (
    c.state IN ('ready', 'claimed')
    OR (
      c.touched IS NULL
      AND (
        c.step > a.checkpoint_step
        OR c.turn > c.checkpoint_turn
        OR (c.turn = c.checkpoint_turn AND c.seq > c.checkpoint_seq)
      )
    )
  )
