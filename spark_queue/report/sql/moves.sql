-- Every transition of an item, the renewals of its lease among them. `granted` is one by which somebody got it; `failed` one with an error
-- that the item is ready again after, or dead; `timed` one that says when it may run, and until when.
-- rule again: renewal of a lease
SELECT
  _seq AS seq,
  _step AS step,
  _at AS moment,
  _state AS state,
  _lease AS lease,
  _attempts AS attempts,
  _losses AS losses,
  _worker_id AS worker_id,
  _lease_expires_at AS lease_expires_at,
  _available_at AS available_at,
  _expires_at AS expires_at,
  _enqueued_at IS NOT NULL AS timed,
  _error AS error,
  coalesce(_state = 'claimed' AND _lease = _step, false) AS granted,
  _error IS NOT NULL AND _state IN ('ready', 'dead') AS failed
FROM sq_status_log
WHERE _kind = 'item'
UNION ALL
SELECT
  h._seq,
  r._step,
  r._at,
  h._state,
  h._lease,
  h._attempts,
  h._losses,
  h._worker_id,
  r._lease_expires_at,
  h._available_at,
  h._expires_at,
  h._enqueued_at IS NOT NULL,
  h._error,
  false,
  false
FROM sq_status_log r
JOIN sq_status_log h
  ON h._lease = r._lease AND h._step < r._step AND h._kind = 'item' AND h._state = 'claimed'
WHERE
  r._kind = 'renewal'
  AND NOT EXISTS (
    SELECT 1
    FROM sq_status_log n
    WHERE n._seq = h._seq AND n._step > h._step AND n._step < r._step AND n._kind = 'item'
  )
