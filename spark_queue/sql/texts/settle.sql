-- The walk of a settle, and of a renewal.
-- Uses: log.
-- Tables: asked, delays, outcome_rows, outcomes, states, workers_ended.

-- lease_items(kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, is_held, is_settled)
-- The newest row of each item that a lease was granted for: whether the holder still has it and the
-- settle means it, and whether he has settled it.
-- rule: holder of a lease
-- rule again: newest row of an item, end of a worker
SELECT
  n.*,
  coalesce(
    n.state = 'claimed' AND n.lease = a.lease AND n.losses >= a.least_losses
      AND (a.is_sure OR coalesce(r.until, n.lease_expires_at) <= a.lapsed_by OR e.worker_id IS NOT NULL),
    false
  ) AS is_held,
  x.is_settled
FROM sq_states n
JOIN (
  SELECT
    s.seq, max(s.step) AS step,
    bool_or(coalesce(s.lease = b.lease AND s.state <> 'claimed', false)) AS is_settled
  FROM sq_states s
  JOIN (
    SELECT g.seq FROM sq_states g CROSS JOIN sq_asked c WHERE g.step = c.lease AND g.state = 'claimed'
  ) m ON s.seq = m.seq
  CROSS JOIN sq_asked b
  GROUP BY s.seq
) x ON n.seq = x.seq AND n.step = x.step
LEFT JOIN sq_renewals r ON n.lease = r.lease
LEFT JOIN sq_workers_ended e ON n.worker_id = e.worker_id
CROSS JOIN sq_asked a

-- settle_by_item(told_seq, outcome, told_error, after, kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, is_held, is_settled)
-- Each item with an outcome of its own.
-- rule: holder of a lease
SELECT o.seq AS told_seq, o.outcome, o.error AS told_error, o.after, h.*
FROM sq_outcomes o
LEFT JOIN sq_lease_items h ON o.seq = h.seq

-- settle_alike(told_seq, outcome, told_error, after, kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, is_held, is_settled)
-- One outcome for all items that the holder has not settled.
-- rule: holder of a lease
SELECT h.seq AS told_seq, a.outcome, a.error AS told_error, a.after, h.*
FROM sq_lease_items h
CROSS JOIN sq_asked a
WHERE NOT h.is_settled

-- settle_of_gone_worker(told_seq, outcome, told_error, after, kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, is_held, is_settled)
-- A loss of each item whose worker is gone.
-- rule: end of a worker
SELECT h.seq AS told_seq, a.outcome, a.error AS told_error, a.after, h.*
FROM sq_lease_items h
CROSS JOIN sq_asked a
WHERE NOT h.is_settled AND h.is_held

-- with_attempt_limit(told_seq, outcome, told_error, after, kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, is_held, is_settled, most_attempts)
-- Items with their outcomes, and the number of failures after which each is dead; null without a limit.
-- rule: attempts of an item
SELECT t.*, least(coalesce(t.max_attempts, a.max_attempts), a.punted_at) AS most_attempts
FROM sq_settle_by_item t
CROSS JOIN sq_asked a

-- with_outcome(told_seq, outcome, told_error, after, kind, seq, gen, step, state, lease, attempts, losses, deferrals, claim_id, worker_id, lease_expires_at instant, error, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, turn, overdue, is_held, is_settled, most_attempts, max_losses, max_deferrals, failures, lost, put_off, becomes)
-- Items with what their outcome makes of them.
-- rule: loss of a lease, outcome of an item, deferral of an item
SELECT
  q.*,
  CASE
    WHEN q.outcome = 'ack' THEN 'acked'
    WHEN q.outcome = 'dead' THEN 'dead'
    WHEN q.outcome = 'nack' AND q.failures >= q.most_attempts THEN 'dead'
    WHEN q.outcome = 'lose' AND q.lost >= q.max_losses THEN 'dead'
    WHEN q.outcome = 'defer' AND q.put_off >= q.max_deferrals THEN 'dead'
    ELSE 'ready'
  END AS becomes
FROM (
  SELECT
    t.*, a.max_losses, a.max_deferrals,
    t.attempts + CASE WHEN t.outcome = 'nack' THEN 1 ELSE 0 END AS failures,
    t.losses + CASE WHEN t.outcome = 'lose' THEN 1 ELSE 0 END AS lost,
    CASE WHEN t.outcome = 'defer' THEN coalesce(t.deferrals, 0) + 1 ELSE t.deferrals END AS put_off
  FROM sq_with_attempt_limit t
  CROSS JOIN sq_asked a
) q

-- retried_items(seq, attempts)
-- Items that fail and are retried after the delay of the policy: not those that fail for the last time.
SELECT o.told_seq AS seq, o.failures AS attempts
FROM sq_with_outcome o
WHERE o.is_held AND o.outcome = 'nack' AND o.becomes = 'ready' AND o.after IS NULL

-- retry_attempts(attempts)
-- The numbers of failures of retried items.
SELECT DISTINCT f.attempts FROM sq_retried_items f ORDER BY f.attempts

-- retry_times(seq, available_at instant)
-- The times of retries, in an engine that draws the jitter. A fraction of a second is rounded by itself,
-- a half to the even.
-- rule: delay of a retry
SELECT
  d.seq,
  d.now + cast(floor(d.delay) AS bigint) * 1000000
    + cast(rint((d.delay - floor(d.delay)) * 1e6) AS bigint) AS available_at
FROM (
  SELECT
    f.seq, a.now,
    y.seconds * (1e0 - a.jitter
      * (crc32(concat(cast(f.seq AS string), ':', cast(f.attempts AS string))) / 4294967296e0)
    ) AS delay
  FROM sq_retried_items f
  JOIN sq_delays y ON f.attempts = y.attempts
  CROSS JOIN sq_asked a
) d

-- wait_times(seq, available_at instant)
-- When items may be claimed again that go back and do not at once.
-- rule: delay of a retry, deferral of an item
SELECT r.seq, r.available_at FROM sq_retry_times r
UNION ALL
SELECT o.told_seq, a.now + o.after
FROM sq_with_outcome o
CROSS JOIN sq_asked a
WHERE o.after IS NOT NULL AND o.becomes = 'ready'

-- settle_rows(seq, gen, lease, is_held, outcome, error, claim_id, worker_id, attempts, losses, deferrals, at instant, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state)
-- The rows of a settle; of an item lost to its holder only the seq counts.
SELECT
  o.told_seq AS seq, o.gen, o.lease, coalesce(o.is_held, false) AS is_held, o.outcome,
  CASE WHEN o.outcome = 'defer' AND o.becomes = 'dead' THEN a.too_often ELSE o.told_error END AS error,
  o.claim_id, o.worker_id, o.failures AS attempts, o.lost AS losses, o.put_off AS deferrals, a.now AS at,
  $schedule(o, w: available_at),
  o.becomes AS state
FROM sq_with_outcome o
CROSS JOIN sq_asked a
LEFT JOIN sq_wait_times w ON o.told_seq = w.seq
ORDER BY seq

-- renewal_rows(seq, gen, state, lease, is_held, outcome, attempts, losses, deferrals, turn, overdue, claim_id, worker_id, error, at instant, lease_expires_at instant, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant)
-- The rows of a renewal; of an item lost to its holder only the seq counts.
-- rule: renewal of a lease
SELECT
  h.seq, h.gen, h.state, h.lease, h.is_held, 'renew' AS outcome, h.attempts, h.losses, h.deferrals,
  h.turn, h.overdue,
  h.claim_id, h.worker_id, h.error, a.now AS at, a.until AS lease_expires_at,
  $schedule(h)
FROM sq_lease_items h
CROSS JOIN sq_asked a
WHERE NOT h.is_settled
ORDER BY seq

-- settle_facts(state, items, failed, deferred)
-- Counts of the rows of a settle by state, which is null for items lost to their holder.
SELECT
  CASE WHEN s.is_held THEN s.state END AS state, count(*) AS items,
  count(CASE WHEN s.is_held AND s.state = 'ready' AND s.outcome IN ('nack', 'lose') THEN 1 END) AS failed,
  count(CASE WHEN s.is_held AND s.state = 'ready' AND s.outcome = 'defer' THEN 1 END) AS deferred
FROM sq_outcome_rows s
GROUP BY CASE WHEN s.is_held THEN s.state END

-- lost_items(seq)
-- Items lost to their holder.
SELECT DISTINCT s.seq FROM sq_outcome_rows s WHERE NOT s.is_held ORDER BY s.seq LIMIT $limit

-- logged_rows(seq, gen, lease, is_held, outcome, error, claim_id, worker_id, attempts, losses, deferrals, at instant, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state)
-- The rows of a settle that are written.
SELECT s.* FROM sq_outcome_rows s WHERE s.is_held
