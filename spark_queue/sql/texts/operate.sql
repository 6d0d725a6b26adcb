-- Items that operators select, and counts of their steps.
-- Uses: log, status.
-- Tables: asked, found, meant, rejected, written.

-- cancelled_items(own, seq, state, attempts, losses, deferrals, dedup_key, fair_key, group_key, flow_keys, units, chain, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- The items that a step cancelled, and that are cancelled since. A dropped item has a reason.
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'cancelled' AND s.moved_step = a.step AND s.moved_error IS NULL

-- items_not_redriven(own, seq, state, attempts, losses, deferrals, dedup_key, fair_key, group_key, flow_keys, units, chain, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- The selected items that were not redriven. What another one of its key has replaced is left out.
-- rule: redrive of an ended item
SELECT m.*
FROM sq_meant m
LEFT JOIN sq_successors r ON m.seq = r.origin
WHERE r.seq IS NULL AND NOT (m.state = 'cancelled' AND coalesce(m.error, '') LIKE 'replaced by %')

-- items_past_deadline(own, seq, state, attempts, losses, deferrals, dedup_key, fair_key, group_key, flow_keys, units, chain, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- Ready items past their deadline.
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'ready' AND s.deadline <= a.now

-- counts_by_state(state, items)
-- How many of the found items are in each state.
SELECT f.state, count(*) AS items
FROM sq_found f
GROUP BY f.state
ORDER BY f.state

-- step_counts(kind, state, items, dropped, replaced)
-- The rows of a step by kind and state, and how many of its items a limit dropped, and others replaced.
SELECT
  w.kind, w.state, count(*) AS items,
  count(CASE WHEN w.state = 'cancelled' AND w.error LIKE 'dropped: %' THEN 1 END) AS dropped,
  count(CASE WHEN w.state = 'cancelled' AND w.error LIKE 'replaced by %' THEN 1 END) AS replaced
FROM sq_written w
GROUP BY w.kind, w.state

-- refused_redrives(origin, duplicate_of)
-- The first redrives that were refused, with the holder of their key.
SELECT r.origin, r.duplicate_of FROM sq_rejected r ORDER BY r.origin LIMIT $limit
