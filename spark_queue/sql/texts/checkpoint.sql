-- The rows that a checkpoint keeps.
-- Uses: log, open_items.
-- Tables: pointers, weights, weights_after.

-- checkpoint_items(seq, item_gen, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, is_touched, turn, v, s)
-- The items that a checkpoint keeps: touched ones that are open or ahead of the order, and untouched
-- ones that the order has passed. It is read by the weights to come.
SELECT c.*
FROM (
  SELECT
    b.*,
    $turn(b.round, w) AS turn,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.seq, 0) AS s
  FROM (
    SELECT
      l.seq, coalesce(l.item_gen, l.gen) AS item_gen, l.state, l.lease, l.attempts, l.losses, l.deferrals,
      l.claim_id, l.worker_id, l.held_until AS lease_expires_at, l.error, $schedule(l),
      true AS is_touched
    FROM sq_newest_rows l
    UNION ALL
    SELECT
      t.seq, t.gen AS item_gen, 'ready' AS state, cast(NULL AS bigint) AS lease, t.attempts, 0 AS losses, 0 AS deferrals,
      cast(NULL AS string) AS claim_id, cast(NULL AS string) AS worker_id,
      cast(NULL AS bigint) AS lease_expires_at, cast(NULL AS string) AS error,
      $schedule(t), false AS is_touched
    FROM sq_with_turn t
    WHERE t.step IS NOT NULL
  ) b
  LEFT JOIN sq_weights_after w ON b.fair_key = w.fair_key AND b.priority = w.priority
  LEFT JOIN sq_pointers p ON b.priority = p.priority
) c
WHERE
  (c.is_touched AND c.state IN ('ready', 'claimed'))
  OR $ahead(c.turn, c.seq, c.v, c.s) = c.is_touched

-- checkpoint_lines(priority, fair_key, overdue, turn)
-- The turns that each line was given. If its key gets another weight, they move around the pointer.
-- rule: weight of a key
SELECT
  r.priority, r.fair_key, r.overdue,
  CASE WHEN n.weight <> coalesce(w.weight, 1e0)
    THEN coalesce(p.turn, 0e0)
      + (r.turn - coalesce(p.turn, 0e0)) * (coalesce(w.weight, 1e0) / n.weight)
    ELSE r.turn
  END AS turn
FROM (
  SELECT k.priority, k.fair_key, false AS overdue, k.regular AS turn FROM sq_line_turns k
  UNION ALL
  SELECT k.priority, k.fair_key, true AS overdue, k.late AS turn FROM sq_line_turns k
) r
LEFT JOIN sq_weights w ON r.fair_key = w.fair_key AND r.priority = w.priority
LEFT JOIN sq_weights_after n ON r.fair_key = n.fair_key AND r.priority = n.priority
LEFT JOIN sq_pointers p ON r.priority = p.priority
WHERE r.turn IS NOT NULL

-- checkpoint_rows(kind, seq, item_gen, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue)
-- The rows of a checkpoint.
SELECT
  'open' AS kind, o.seq, o.item_gen, o.state, o.lease, o.attempts, o.losses, o.deferrals,
  o.claim_id, o.worker_id, o.lease_expires_at, o.error, $schedule(o),
  cast(NULL AS double) AS turn, cast(NULL AS boolean) AS overdue
FROM sq_checkpoint_items o
UNION ALL
SELECT
  'served' AS kind, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, $schedule(NULL, k: priority, fair_key),
  k.turn, k.overdue
FROM sq_checkpoint_lines k
ORDER BY priority, round
