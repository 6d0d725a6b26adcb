-- Items that operators mean, and what a step of theirs wrote.
-- Uses: log, status.

-- cancelled_items(own, seq, state, attempts, losses, dedup_key, fair_key, group_key, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- The items that a cancel of a step ended, and that are cancelled since. Who drops an item says why.
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'cancelled' AND s.moved_step = a.step AND s.moved_error IS NULL

-- items_not_redriven(own, seq, state, attempts, losses, dedup_key, fair_key, group_key, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- Of some items those that were not enqueued again.
SELECT m.*
FROM sq_meant m
LEFT JOIN sq_successors r ON m.seq = r.origin
WHERE r.seq IS NULL

-- items_past_deadline(own, seq, state, attempts, losses, dedup_key, fair_key, group_key, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- The items that wait, and whose time is over.
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'ready' AND s.deadline <= a.now

-- counts_by_state(state, items)
-- How many of some items are in each state.
SELECT f.state, count(*) AS items
FROM sq_found f
GROUP BY f.state
ORDER BY f.state

-- step_counts(kind, state, items, dropped)
-- What a step has written, and how many of its items a limit dropped.
SELECT
  w.kind, w.state, count(*) AS items,
  count(CASE WHEN w.state = 'cancelled' AND w.error IS NOT NULL THEN 1 END) AS dropped
FROM sq_written w
GROUP BY w.kind, w.state

-- refused_redrives(origin, duplicate_of)
-- The first items that were refused when they were enqueued again, and who has their key.
SELECT r.origin, r.duplicate_of FROM sq_rejected r ORDER BY r.origin LIMIT $limit
