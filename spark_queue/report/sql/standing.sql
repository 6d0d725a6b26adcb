-- One row an item: where it stands, and since when.
SELECT
  i.seq,
  i.step,
  i.fair_key,
  i.group_key,
  i.enqueued_at,
  i.expires_at,
  i.origin,
  coalesce(m.state, 'ready') AS state,
  coalesce(m.attempts, i.failed_before) AS attempts,
  coalesce(m.losses, 0) AS losses,
  coalesce(m.available_at, i.available_at) AS available_at,
  coalesce(m.moment, i.enqueued_at) AS moved_at,
  t.first_claimed_at,
  t.claimed_at,
  CASE WHEN m.state IN ('acked', 'dead', 'expired', 'cancelled') THEN m.moment END AS finished_at,
  CASE WHEN m.state = 'claimed' THEN m.lease END AS lease,
  CASE WHEN m.state = 'claimed' THEN m.worker_id END AS worker_id,
  CASE WHEN m.state = 'claimed' THEN m.lease_expires_at END AS lease_expires_at,
  t.failed_step
FROM sq_items i
LEFT JOIN sq_touched t ON t.seq = i.seq
LEFT JOIN sq_moves m ON m.seq = t.seq AND m.step = t.step
