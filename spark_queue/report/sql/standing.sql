-- One row an item: where it stands, and since when. Its times are those of its newest transition, where
-- that says any. `expires_at` is the reader's: its `max_age` ends an item, too.
-- rule again: newest row of an item, deadline of an item
SELECT
  i.seq,
  i.step,
  i.fair_key,
  i.group_key,
  i.enqueued_at,
  least(
    CASE WHEN m.timed THEN m.expires_at ELSE i.expires_at END,
    timestamp_micros(unix_micros(i.enqueued_at) + a.max_age_us)
  ) AS expires_at,
  i.origin,
  coalesce(m.state, 'ready') AS state,
  coalesce(m.attempts, i.failed_before) AS attempts,
  coalesce(m.losses, 0) AS losses,
  CASE WHEN m.timed THEN m.available_at ELSE i.available_at END AS available_at,
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
CROSS JOIN sq_asked a
