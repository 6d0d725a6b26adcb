-- listed(seq, state, why, since instant, attempts, losses, dedup_key, fair_key, group_key, worker_id, lease_expires_at instant, error, tenant_id, group_id, error_id)
-- The items with what they are found by: their fair key, their group, and the wording of the error that
-- they failed with last, each by its digest, since any text may be one. `why` is why an open item is
-- not running; of one that ended it is the state, or that it was enqueued again.
SELECT
  s.seq,
  s.state,
  CASE
    WHEN r.reason IS NOT NULL THEN r.reason
    WHEN x.origin IS NOT NULL AND s.state <> 'acked' THEN 'redriven'
    ELSE s.state
  END AS why,
  s.moved_at AS since,
  s.attempts,
  s.losses,
  s.dedup_key,
  s.fair_key,
  s.group_key,
  s.worker_id,
  s.lease_expires_at,
  s.error,
  md5(coalesce('=' || s.fair_key, '')) AS tenant_id,
  md5(coalesce('=' || s.group_key, '')) AS group_id,
  md5('=' || w.wording) AS error_id
FROM sq_status s
LEFT JOIN sq_reasons r ON r.seq = s.seq
LEFT JOIN sq_successors x ON x.origin = s.seq
LEFT JOIN sq_failures f ON f.seq = s.seq AND f.step = s.failed_step
LEFT JOIN sq_wordings w ON w.said = f.said
