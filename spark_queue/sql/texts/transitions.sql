-- transitions(seq, step, at instant, state, attempts, losses, lease, claim_id, worker_id, lease_expires_at instant, available_at instant, error, granted, failed)
-- The transitions of items, by their own rows and the renewals of the leases that these have: `granted`
-- is one by which a claim got it, `failed` one with an error that it is ready again after, or dead.
-- rule again: renewal of a lease
SELECT
  h.seq, h.step, h.at, h.state, h.attempts, h.losses, h.lease, h.claim_id, h.worker_id,
  h.lease_expires_at, h.available_at, h.error,
  coalesce(h.state = 'claimed' AND h.lease = h.step, false) AS granted,
  h.error IS NOT NULL AND h.state IN ('ready', 'dead') AS failed
FROM sq_states h
WHERE h.kind = 'item'
UNION ALL
SELECT
  h.seq, r.step, r.at, h.state, h.attempts, h.losses, h.lease, h.claim_id, h.worker_id,
  r.lease_expires_at, h.available_at, h.error, false, false
FROM sq_states r
JOIN sq_states h
  ON h.lease = r.lease AND h.step < r.step AND h.kind = 'item' AND h.state = 'claimed'
WHERE
  r.kind = 'renewal'
  AND NOT EXISTS (
    SELECT 1
    FROM sq_states n
    WHERE n.seq = h.seq AND n.step > h.step AND n.step < r.step AND n.kind = 'item'
  )
