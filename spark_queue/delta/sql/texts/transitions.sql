-- The transitions of items, by their own rows and the renewals of the leases that these have.
-- rule again: renewal of a lease
SELECT
  h.step, h.at, h.state, h.attempts, h.losses, h.lease, h.claim_id, h.worker_id, h.lease_expires_at,
  h.available_at, h.error
FROM sq_states h
WHERE h.kind = 'item'
UNION ALL
SELECT
  r.step, r.at, h.state, h.attempts, h.losses, h.lease, h.claim_id, h.worker_id, r.lease_expires_at,
  h.available_at, h.error
FROM (
  SELECT s.*, lead(s.step) OVER (PARTITION BY s.seq ORDER BY s.step) AS until
  FROM sq_states s
  WHERE s.kind = 'item'
) h
JOIN sq_states r ON h.lease = r.lease AND r.step > h.step
WHERE h.state = 'claimed' AND r.kind = 'renewal' AND (h.until IS NULL OR r.step < h.until)
