-- The items that the reader sees, as they were enqueued. `expires_at` is the reader's: its `max_age`
-- ends an item, too.
SELECT
  q._seq AS seq,
  q._step AS step,
  q._fair_key AS fair_key,
  q._group_key AS group_key,
  q._priority AS priority,
  q._enqueued_at AS enqueued_at,
  q._available_at AS available_at,
  CASE
    WHEN a.max_age_us IS NULL THEN q._expires_at
    ELSE least(q._expires_at, timestamp_micros(unix_micros(q._enqueued_at) + a.max_age_us))
  END AS expires_at,
  coalesce(q._errors, 0) AS failed_before,
  q._origin AS origin
FROM sq_queue_log q
CROSS JOIN sq_asked a
WHERE q._kind = 'item' AND q._step > a.since_step
