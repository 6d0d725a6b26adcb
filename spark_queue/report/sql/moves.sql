-- Every transition of an item. `granted` is one by which somebody got it; `failed` one with an error
-- that the item is ready again after, or dead; `timed` one that says when it may run, and until when.
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
