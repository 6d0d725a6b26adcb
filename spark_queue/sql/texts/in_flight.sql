-- The items in flight, and until when, as of a step.
SELECT
  l.seq, coalesce(l.item_gen, l.gen) AS gen, l.state, l.attempts, l.losses, l.lease, l.claim_id,
  l.worker_id, l.held_until AS lease_expires_at, $schedule(l)
FROM sq_latest l
WHERE l.state = 'claimed'
