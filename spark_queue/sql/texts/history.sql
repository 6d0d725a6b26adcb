-- history(log, seq, step, at instant, state, duplicate_of, origin, attempts, losses, lease, claim_id, worker_id, lease_expires_at instant, available_at instant, error)
-- How items entered or were refused, and every transition since, of each the oldest first.
SELECT
  'queue' AS log, i.seq, i.step, i.enqueued_at AS at, 'ready' AS state, i.duplicate_of, i.origin,
  cast(NULL AS int) AS attempts, cast(NULL AS int) AS losses, cast(NULL AS bigint) AS lease,
  cast(NULL AS string) AS claim_id, cast(NULL AS string) AS worker_id,
  cast(NULL AS bigint) AS lease_expires_at, cast(NULL AS bigint) AS available_at,
  cast(NULL AS string) AS error
FROM sq_items i
UNION ALL
SELECT
  'queue', r.seq, r.step, r.enqueued_at, 'refused', r.duplicate_of, r.origin, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL
FROM sq_rejected r
UNION ALL
SELECT
  'status', t.seq, t.step, t.at, t.state, NULL, NULL, t.attempts, t.losses, t.lease,
  t.claim_id, t.worker_id, t.lease_expires_at, t.available_at, t.error
FROM sq_transitions t
ORDER BY seq, log, step
