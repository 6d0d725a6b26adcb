-- Rows of both logs: the newest of each item, and redriven items.
-- Tables: candidates, items, states.

-- renewals(lease, until instant)
-- Until when the newest renewal of each lease holds it.
-- rule again: renewal of a lease
SELECT lease, max_by(lease_expires_at, step) AS until
FROM sq_states
WHERE kind = 'renewal'
GROUP BY lease

-- last_steps(seq, step)
-- The step of the newest row of each item that was touched.
-- rule: newest row of an item
SELECT s.seq, max(s.step) AS step FROM sq_states s WHERE s.kind IN ('item', 'open') GROUP BY s.seq

-- last_steps_of_candidates(seq, step)
-- The same, of candidates alone.
-- rule: newest row of an item
SELECT t.seq, max(t.step) AS step
FROM sq_states t
WHERE t.kind IN ('item', 'open') AND EXISTS (SELECT 1 FROM sq_candidates c WHERE c.seq = t.seq)
GROUP BY t.seq

-- newest_rows(kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, item_gen, held_until instant)
-- The newest row of each item that was touched. (seq, step) is unique. A join back keeps nulls, which
-- max_by skips in one engine and keeps in the other.
SELECT s.*, coalesce(r.until, s.lease_expires_at) AS held_until
FROM sq_states s
JOIN sq_last_steps n ON s.seq = n.seq AND s.step = n.step
LEFT JOIN sq_renewals r ON s.lease = r.lease
WHERE s.kind IN ('item', 'open')

-- open_rows(kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, item_gen, held_until instant)
-- Those of items that are open.
SELECT l.* FROM sq_newest_rows l WHERE l.state IN ('ready', 'claimed')

-- redriven(origin, seq)
-- Items that were others before, and which.
SELECT i.origin, i.seq FROM sq_items i WHERE i.origin IS NOT NULL

-- successors(origin, seq)
-- Items that were enqueued again meanwhile, and the newest item of each.
-- rule: redrive of an ended item
SELECT r.origin, max(r.seq) AS seq FROM sq_redriven r GROUP BY r.origin
