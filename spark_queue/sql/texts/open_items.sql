-- Open items, and where each is in the order of service.
-- Uses: log.
-- Tables: asked, entered, paused_by, pauses, pointers, states, times, weights.

-- leased_items(seq, gen, state, attempts, losses, deferrals, lease, claim_id, worker_id, lease_expires_at instant, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant)
-- Items in flight as of a step, with the ends of their leases.
SELECT
  l.seq, coalesce(l.item_gen, l.gen) AS gen, l.state, l.attempts, l.losses, l.deferrals, l.lease, l.claim_id,
  l.worker_id, l.held_until AS lease_expires_at, $schedule(l)
FROM sq_open_rows l
WHERE l.state = 'claimed'

-- open_items(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step)
-- Every open item: a touched one by its newest row, any other as it entered.
-- rule: newest row of an item
SELECT
  l.seq, coalesce(l.item_gen, l.gen) AS gen, $schedule(l, t),
  l.state, l.attempts, l.losses, coalesce(l.deferrals, 0) AS deferrals, l.lease,
  l.held_until AS lease_expires_at,
  cast(NULL AS bigint) AS step
FROM sq_open_rows l
LEFT JOIN sq_times t ON l.seq = t.seq
UNION ALL
SELECT
  i.seq, i.gen, $schedule(i),
  'ready' AS state, coalesce(i.errors, 0) AS attempts, 0 AS losses, 0 AS deferrals,
  cast(NULL AS bigint) AS lease, cast(NULL AS bigint) AS lease_expires_at,
  i.step
FROM sq_entered i
LEFT JOIN sq_last_steps l ON i.seq = l.seq
WHERE l.seq IS NULL

-- with_turn(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq)
-- Open items on the scale of their key's weight: `tag` is the turn of the stored tag, (`v`, `s`) the
-- turn and the item that the order has reached. An item that only entered counts if the checkpoint does
-- not know it, within reach of the claim.
SELECT q.*
FROM (
  SELECT
    u.*,
    $turn(u.round, w) AS tag,
    $moves(u.cost, w) AS inc,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.seq, 0) AS s,
    coalesce(p.checkpoint_turn, 0e0) AS checkpoint_turn,
    coalesce(p.checkpoint_seq, 0) AS checkpoint_seq
  FROM sq_open_items u
  LEFT JOIN sq_weights w ON u.fair_key = w.fair_key AND u.priority = w.priority
  LEFT JOIN sq_pointers p ON u.priority = p.priority
) q
CROSS JOIN sq_asked a
WHERE
  q.step IS NULL
  OR (
    q.step > a.since_step AND q.step <= a.queue_step
    AND $unknown(q, a)
    AND (a.reach IS NULL OR q.tag <= q.v + a.reach)
  )

-- paused_items(seq, until)
-- The items of paused keys, and until when: in microseconds.
-- rule: pause of a key
SELECT k.seq, max(p.until) AS until
FROM (
  SELECT t.seq, m.nth, $limited_key(t, m) AS key
  FROM sq_with_turn t
  CROSS JOIN sq_paused_by m
) k
JOIN sq_pauses p ON k.nth = p.nth AND k.key = p.key
GROUP BY k.seq

-- kept_items(seq, until)
-- The items that are kept out of the lines, and until when.
SELECT p.seq, p.until FROM sq_paused_items p

-- line_turns(priority, fair_key, regular, late)
-- The highest regular and the highest overdue turn that each line was given.
-- rule: turns handed out
SELECT
  l.priority, l.fair_key,
  max(CASE WHEN NOT l.overdue THEN l.turn END) AS regular,
  max(CASE WHEN l.overdue THEN l.turn END) AS late
FROM sq_states l
WHERE l.kind = 'served' OR (l.kind = 'item' AND l.state = 'claimed')
GROUP BY l.priority, l.fair_key
