-- Where each item stands.
-- Uses: log.
-- Tables: asked, items, states.

-- touched(seq, step, first_claimed_at instant, claimed_at instant, failed_step, failure)
-- Each item that has transitions: its newest, its first and last claim, and why it failed last.
-- rule again: newest row of an item
SELECT
  s.seq,
  max(s.step) AS step,
  min(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END) AS first_claimed_at,
  max(CASE WHEN s.state = 'claimed' AND s.lease = s.step THEN s.at END) AS claimed_at,
  max(CASE WHEN s.error IS NOT NULL THEN s.step END) AS failed_step,
  max_by(s.error, CASE WHEN s.error IS NOT NULL THEN s.step END) AS failure
FROM sq_states s
WHERE s.kind = 'item'
GROUP BY s.seq

-- status(own, seq, state, attempts, losses, deferrals, dedup_key, fair_key, group_key, flow_keys, units, chain, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step)
-- One row an item: where it stands, and since when. A transition has all times, or those of a journal
-- none. `own` are the user's columns, or what leads to them; `deadline` is the sooner of its own and
-- the one that the reader's `max_age` sets. It waits since it entered, or since its delay ended, whichever
-- is later; `waited` is for how long it did until its first claim.
SELECT /*+ BROADCAST(r) */
  i.own, i.seq, coalesce(m.state, 'ready') AS state,
  coalesce(m.attempts, i.errors, 0) AS attempts, coalesce(m.losses, 0) AS losses,
  coalesce(m.deferrals, 0) AS deferrals,
  i.dedup_key, i.fair_key, i.group_key, i.flow_keys, i.units, i.chain,
  i.priority, i.round, i.cost, i.max_attempts,
  CASE WHEN m.enqueued_at IS NULL THEN i.available_at ELSE m.available_at END AS available_at,
  CASE WHEN m.enqueued_at IS NULL THEN i.expires_at ELSE m.expires_at END AS expires_at,
  $deadline(
    CASE WHEN m.enqueued_at IS NULL THEN i.expires_at ELSE m.expires_at END, i.enqueued_at, a
  ) AS deadline,
  greatest(
    i.enqueued_at, CASE WHEN m.enqueued_at IS NULL THEN i.available_at ELSE m.available_at END
  ) AS waits_since,
  i.enqueued_at, t.first_claimed_at, t.claimed_at,
  t.first_claimed_at - greatest(i.enqueued_at, i.available_at) AS waited,
  CASE WHEN m.state NOT IN ('ready', 'claimed') THEN m.at END AS finished_at,
  CASE WHEN m.state = 'claimed' THEN m.lease END AS lease,
  CASE WHEN m.state = 'claimed' THEN m.worker_id END AS worker_id,
  CASE WHEN m.state = 'claimed' THEN coalesce(r.until, m.lease_expires_at) END AS lease_expires_at,
  t.failure AS error, i.origin, i.step, i.gen,
  m.step AS moved_step, coalesce(m.at, i.enqueued_at) AS moved_at, m.error AS moved_error,
  t.failed_step
FROM sq_items i
CROSS JOIN sq_asked a
LEFT JOIN sq_touched t ON i.seq = t.seq
LEFT JOIN sq_states m ON t.seq = m.seq AND t.step = m.step AND m.kind = 'item'
LEFT JOIN sq_renewals r ON m.lease = r.lease

-- dead_letters(own, seq, state, attempts, losses, deferrals, dedup_key, fair_key, group_key, flow_keys, units, chain, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step, successor)
-- The dead letters, each with the newest item that it was redriven as.
SELECT s.*, r.seq AS successor
FROM sq_status s
LEFT JOIN sq_successors r ON s.seq = r.origin
WHERE s.state = 'dead'
