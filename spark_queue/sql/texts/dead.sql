-- dead(own, seq, state, attempts, losses, dedup_key, fair_key, group_key, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step, successor)
-- The dead letters, each with the newest item that it was redriven as.
SELECT s.*, r.seq AS successor
FROM sq_status s
LEFT JOIN sq_successors r ON s.seq = r.origin
WHERE s.state = 'dead'
