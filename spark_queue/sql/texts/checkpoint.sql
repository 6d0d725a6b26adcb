-- The rows of a checkpoint.
SELECT
  'open' AS kind, o.seq, o.item_gen, o.state, o.lease, o.attempts, o.losses, o.claim_id, o.worker_id,
  o.lease_expires_at, o.error, $schedule(o),
  cast(NULL AS double) AS turn, cast(NULL AS boolean) AS overdue
FROM sq_checkpoint_open o
UNION ALL
SELECT
  'served' AS kind, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, $schedule(NULL, k: priority, fair_key),
  k.turn, k.overdue
FROM sq_checkpoint_served k
ORDER BY priority, round
