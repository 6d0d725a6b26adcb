-- Items that a checkpoint keeps: what was touched and is open or has yet to be reached, and what the
-- order has passed and nothing has touched. Who reads it asks by the weights to come.
-- rule again: weight of a key, untouched item
SELECT c.*
FROM (
  SELECT
    b.*,
    coalesce(w.pin_turn, 0e0) + (b.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS turn,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.seq, 0) AS s
  FROM (
    SELECT
      l.seq, coalesce(l.item_gen, l.gen) AS item_gen, l.state, l.lease, l.attempts, l.losses,
      l.claim_id, l.worker_id, l.held_until AS lease_expires_at, l.error, $schedule(l),
      true AS is_touched
    FROM sq_latest l
    UNION ALL
    SELECT
      t.seq, t.gen AS item_gen, 'ready' AS state, cast(NULL AS bigint) AS lease, t.attempts, 0 AS losses,
      cast(NULL AS string) AS claim_id, cast(NULL AS string) AS worker_id,
      cast(NULL AS bigint) AS lease_expires_at, cast(NULL AS string) AS error,
      $schedule(t), false AS is_touched
    FROM sq_turned t
    WHERE t.step IS NOT NULL
  ) b
  LEFT JOIN sq_weights_after w ON b.fair_key = w.fair_key AND b.priority = w.priority
  LEFT JOIN sq_pointers p ON b.priority = p.priority
) c
WHERE
  (c.is_touched AND c.state IN ('ready', 'claimed'))
  OR (c.turn > c.v OR (c.turn = c.v AND c.seq > c.s)) = c.is_touched
