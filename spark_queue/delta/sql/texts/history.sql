-- How an item entered or was refused, and every transition since, oldest first.
SELECT
  'queue' AS log, e.step, e.enqueued_at AS at, e.state, e.duplicate_of, e.origin,
  cast(NULL AS int) AS attempts, cast(NULL AS int) AS losses, cast(NULL AS bigint) AS lease,
  cast(NULL AS string) AS claim_id, cast(NULL AS string) AS worker_id,
  cast(NULL AS bigint) AS lease_expires_at, cast(NULL AS bigint) AS available_at,
  cast(NULL AS string) AS error
FROM (
  SELECT i.step, i.enqueued_at, 'ready' AS state, i.duplicate_of, i.origin FROM sq_items i
  UNION ALL
  SELECT r.step, r.enqueued_at, 'refused' AS state, r.duplicate_of, r.origin FROM sq_rejected r
) e
UNION ALL
SELECT
  'status' AS log, t.step, t.at, t.state, NULL, NULL, t.attempts, t.losses, t.lease,
  t.claim_id, t.worker_id, t.lease_expires_at, t.available_at, t.error
FROM sq_transitions t
ORDER BY log, step
