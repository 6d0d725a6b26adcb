-- Items that operators select, counts of their steps, and what an earlier claim still holds.
-- Uses: log, status.
-- Tables: asked, found, meant, rejected, states, written.

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

-- lease_of_claim(lease)
-- The newest lease that was granted under the id of a claim.
SELECT max(s.step) AS lease
FROM sq_states s
CROSS JOIN sq_asked a
WHERE s.kind = 'item' AND s.state = 'claimed' AND s.lease = s.step AND s.claim_id = a.claim_id

-- items_of_claim(seq, step, at instant, lease_expires_at instant, is_held, is_back)
-- The items of that lease: whether it holds them, and whether their next row made them ready without a
-- worker id, as a clone does.
SELECT
  g.seq, g.step, g.at, g.lease_expires_at,
  coalesce(l.state = 'claimed' AND l.lease = g.step, false) AS is_held,
  coalesce(b.state = 'ready' AND b.lease IS NULL AND b.error IS NULL, false) AS is_back
FROM sq_states g
JOIN sq_lease_of_claim c ON g.step = c.lease AND g.lease = c.lease
JOIN sq_newest_rows l ON g.seq = l.seq
LEFT JOIN (
  SELECT
    s.seq, s.state, s.lease, s.error,
    row_number() OVER (PARTITION BY s.seq ORDER BY s.step) AS place
  FROM sq_states s
  JOIN sq_lease_of_claim c ON s.step > c.lease
  WHERE s.kind = 'item' AND NOT coalesce(s.state = 'claimed' AND s.lease = c.lease, false)
) b ON g.seq = b.seq AND b.place = 1
WHERE g.kind = 'item' AND g.state = 'claimed'

-- claim_found(step, items, back, claimed_at instant, until instant)
-- The claim, if there was one.
SELECT
  g.step, count(*) AS items, count(CASE WHEN g.is_back THEN 1 END) AS back,
  max(g.at) AS claimed_at, max(g.lease_expires_at) AS until
FROM sq_items_of_claim g
GROUP BY g.step

-- items_lost_to_claim(seq)
-- The items that the claim no longer holds.
SELECT g.seq FROM sq_items_of_claim g WHERE NOT g.is_held ORDER BY g.seq
