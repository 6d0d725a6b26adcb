-- One row an item: where it stands, and since when. A transition has all times, or those of a journal
-- none. `own` are the user's columns, or what leads to them.
SELECT /*+ BROADCAST(r) */
  i.own, i.seq, coalesce(m.state, 'ready') AS state,
  coalesce(m.attempts, i.errors, 0) AS attempts, coalesce(m.losses, 0) AS losses,
  i.dedup_key, i.fair_key, i.group_key, i.priority, i.round, i.cost, i.max_attempts,
  CASE WHEN m.enqueued_at IS NULL THEN i.available_at ELSE m.available_at END AS available_at,
  CASE WHEN m.enqueued_at IS NULL THEN i.expires_at ELSE m.expires_at END AS expires_at,
  i.enqueued_at, m.first_claimed_at, m.claimed_at,
  CASE WHEN m.state NOT IN ('ready', 'claimed') THEN m.at END AS finished_at,
  CASE WHEN m.state = 'claimed' THEN m.lease END AS lease,
  CASE WHEN m.state = 'claimed' THEN m.worker_id END AS worker_id,
  CASE WHEN m.state = 'claimed' THEN coalesce(r.until, m.lease_expires_at) END AS lease_expires_at,
  m.failure AS error, i.origin, i.step, i.gen,
  m.step AS moved_step, m.error AS moved_error
FROM sq_items i
LEFT JOIN sq_moved m ON i.seq = m.seq
LEFT JOIN sq_renewals r ON m.lease = r.lease
