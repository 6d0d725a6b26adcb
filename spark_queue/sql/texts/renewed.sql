-- The rows of a renewal; of an item that is lost to its holder only the seq counts.
-- rule: renewal of a lease
SELECT
  h.seq, h.gen, h.state, h.lease, h.is_held, 'renew' AS outcome, h.attempts, h.losses, h.turn, h.overdue,
  h.claim_id, h.worker_id, h.error, a.now AS at, a.until AS lease_expires_at,
  $schedule(h)
FROM sq_held h
CROSS JOIN sq_asked a
WHERE NOT h.is_settled
ORDER BY seq
