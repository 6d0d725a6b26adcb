-- The time line of items, refused rows included: ask for `seq`. `until` is when the lease ends, or
-- the delay.
SELECT
  'queue' AS log,
  seq,
  step,
  enqueued_at AS moment,
  'ready' AS state,
  failed_before AS attempts,
  0 AS losses,
  cast(NULL AS string) AS worker_id,
  available_at AS until,
  cast(NULL AS string) AS error,
  origin,
  cast(NULL AS bigint) AS duplicate_of
FROM sq_items
UNION ALL
SELECT
  'queue', _seq, _step, _enqueued_at, 'refused', 0, 0, NULL, NULL, NULL, NULL, _duplicate_of
FROM sq_queue_log
WHERE _kind = 'refused'
UNION ALL
SELECT
  'status',
  seq,
  step,
  moment,
  state,
  attempts,
  losses,
  worker_id,
  CASE state WHEN 'claimed' THEN lease_expires_at WHEN 'ready' THEN available_at END,
  error,
  NULL,
  NULL
FROM sq_moves
