-- The items that the reader sees, as they were enqueued.
SELECT
  q._seq AS seq,
  q._step AS step,
  q._fair_key AS fair_key,
  q._group_key AS group_key,
  q._priority AS priority,
  q._enqueued_at AS enqueued_at,
  q._available_at AS available_at,
  q._expires_at AS expires_at,
  coalesce(q._errors, 0) AS failed_before,
  q._origin AS origin
FROM sq_queue_log q
CROSS JOIN sq_asked a
WHERE q._kind = 'item' AND q._step > a.since_step
