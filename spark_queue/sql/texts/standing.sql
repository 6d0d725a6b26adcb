-- Why open items are not running, and how many come before each.
-- Uses: status.
-- Tables: asked, pointers, weights.

-- reasons(seq, state, reason, held_by, until instant, is_lapsed, fair_key, group_key, enqueued_at instant, moved_at instant, waits_since instant, available_at instant, expires_at instant, attempts, losses, lease, worker_id, claimed_at instant, lease_expires_at instant, failed_step)
-- Why each open item is not running, as `explain` says it: the first of lease, pause, end, delay,
-- group and limit. `held_by` is the item of its group that is in the way. Of a group that is one that
-- waits for its time, or else the earliest in flight; what the next claim ends is in nobody's way.
-- rule: reason of an item
-- rule again: slots of a group, waiting head of a group, place at an instant
-- rule again: loss of a lease, room of a claim
WITH open_items AS (
  SELECT
    s.*,
    s.state = 'claimed' AND coalesce(s.lease_expires_at <= a.now, false) AS is_lapsed,
    coalesce(s.deadline <= a.now, false) AS is_over,
    coalesce(s.losses + 1 >= a.max_losses, false) AS is_worn,
    coalesce(s.available_at > a.now, false) AS is_early
  FROM sq_status s
  CROSS JOIN sq_asked a
  WHERE s.state IN ('ready', 'claimed')
),
told AS (
  SELECT
    *,
    CASE WHEN state = 'ready' THEN is_over ELSE is_lapsed AND (is_over OR is_worn) END AS ends
  FROM open_items
),
members AS (
  SELECT
    seq,
    group_key,
    CASE WHEN NOT ends AND state = 'ready' AND is_early THEN seq END AS waiting,
    CASE WHEN NOT ends AND state = 'claimed' AND NOT is_lapsed THEN seq END AS held,
    CASE WHEN NOT ends AND state = 'claimed' AND is_lapsed THEN seq END AS lost,
    CASE WHEN NOT ends AND state = 'ready' AND NOT is_early THEN seq END AS due,
    a.group_limit
  FROM told
  CROSS JOIN sq_asked a
  WHERE group_key IS NOT NULL
),
-- Only groups of which somebody can be in the way.
everybody AS (
  SELECT
    group_key,
    min(waiting) AS first_waiting,
    min(held) AS first_held,
    min(lost) AS first_lost,
    min(due) AS first_due,
    count(held) AS all_held,
    count(lost) AS all_lost
  FROM members
  GROUP BY group_key
  HAVING count(waiting) > 0 OR count(held) + count(lost) + count(due) > max(group_limit)
),
seen AS (
  SELECT
    e.*,
    m.seq,
    count(m.lost) OVER earlier AS lost_ahead,
    count(m.due) OVER earlier AS due_ahead
  FROM members m
  JOIN everybody e ON e.group_key = m.group_key
  WINDOW earlier AS (
    PARTITION BY m.group_key ORDER BY m.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  )
),
in_the_way AS (
  SELECT
    t.seq,
    CASE
      WHEN a.blocking AND g.first_waiting < t.seq THEN g.first_waiting
      WHEN t.state = 'claimed' AND g.all_held + g.lost_ahead >= a.group_limit
        THEN coalesce(g.first_held, g.first_lost)
      WHEN t.state = 'ready' AND g.all_held + g.all_lost + g.due_ahead >= a.group_limit
        THEN coalesce(g.first_held, g.first_lost, g.first_due)
    END AS held_by
  FROM told t
  JOIN seen g ON g.seq = t.seq
  CROSS JOIN sq_asked a
),
flight AS (
  SELECT count(*) AS items FROM told WHERE state = 'claimed' AND NOT ends
),
reasoned AS (
  SELECT
    t.*,
    CASE
      WHEN t.state = 'claimed' AND NOT t.is_lapsed THEN 'leased'
      WHEN a.paused THEN 'paused'
      WHEN t.is_over THEN 'expired'
      WHEN t.state = 'claimed' AND t.is_worn THEN 'lease lost'
      WHEN t.state = 'ready' AND t.is_early THEN 'delayed'
      WHEN w.held_by IS NOT NULL THEN 'held by group'
      WHEN t.state = 'ready' AND coalesce(f.items >= a.max_in_flight, false) THEN 'limit'
      ELSE 'runnable'
    END AS reason,
    w.held_by AS way
  FROM told t
  LEFT JOIN in_the_way w ON w.seq = t.seq
  CROSS JOIN sq_asked a
  CROSS JOIN flight f
)
SELECT
  seq,
  state,
  reason,
  CASE WHEN reason = 'held by group' THEN way END AS held_by,
  CASE reason WHEN 'leased' THEN lease_expires_at WHEN 'delayed' THEN available_at END AS until,
  is_lapsed,
  fair_key,
  group_key,
  enqueued_at,
  moved_at,
  waits_since,
  available_at,
  deadline AS expires_at,
  attempts,
  losses,
  lease,
  worker_id,
  claimed_at,
  lease_expires_at,
  failed_step
FROM reasoned

-- runnable(seq, fair_key, since instant)
-- Ready items that nothing but their turn keeps from a claim, and since when: of a group not before
-- anything was last done with one of it.
WITH done_with AS (
  SELECT group_key, max(moved_at) AS moved_at
  FROM sq_status
  WHERE group_key IS NOT NULL AND state <> 'ready'
  GROUP BY group_key
)
SELECT
  r.seq,
  r.fair_key,
  greatest(r.waits_since, r.moved_at, d.moved_at) AS since
FROM sq_reasons r
LEFT JOIN done_with d ON d.group_key = r.group_key
WHERE r.state = 'ready' AND r.reason = 'runnable'

-- longest_wait(seq, reason, since instant)
-- The ready item that has waited longest, and why it is not running.
SELECT r.seq, r.reason, r.waits_since AS since
FROM sq_reasons r
CROSS JOIN sq_asked a
WHERE r.state = 'ready' AND r.waits_since <= a.now
ORDER BY r.waits_since, r.seq
LIMIT 1

-- places_in_line(seq, ahead, held_ahead, members_ahead)
-- How many items come before each that waits, if no other comes, in the order of service: those that may
-- run, and those that their group holds. What is overdue has a turn where the order has come to, and
-- each of a line a round behind the one before; of such a line the items take the turns by their seq.
-- `members_ahead` are the open items before it in its group.
-- rule again: order of service, weight of a key, overdue item, slots of a line
WITH waiting AS (
  SELECT
    s.seq,
    s.priority,
    s.fair_key,
    CASE WHEN r.reason IN ('runnable', 'limit', 'paused') THEN 1 ELSE 0 END AS may_run,
    CASE WHEN r.reason = 'held by group' THEN 1 ELSE 0 END AS is_held,
    coalesce(w.pin_turn, 0e0) + (s.round - coalesce(w.pin_tag, 0e0)) / coalesce(w.weight, 1e0) AS tag,
    coalesce(s.cost, 1e0) / coalesce(w.weight, 1e0) AS inc,
    p.turn AS v,
    p.seq AS last_seq
  FROM sq_reasons r
  JOIN sq_status s ON s.seq = r.seq
  LEFT JOIN sq_weights w ON s.fair_key = w.fair_key AND s.priority = w.priority
  LEFT JOIN sq_pointers p ON s.priority = p.priority
  WHERE r.reason NOT IN ('leased', 'expired', 'lease lost')
),
overdue AS (
  SELECT
    seq,
    v + inc * (row_number() OVER (PARTITION BY priority, fair_key ORDER BY seq) - 1) AS turn
  FROM waiting
  WHERE may_run = 1 AND (tag < v OR (tag = v AND seq <= last_seq))
),
turned AS (
  SELECT
    w.*,
    coalesce(o.turn, w.tag) AS turn,
    w.may_run = 1 AND count(o.seq) OVER (PARTITION BY w.priority, w.fair_key) > 0 AS is_moved
  FROM waiting w
  LEFT JOIN overdue o ON o.seq = w.seq
),
slots AS (
  SELECT
    seq,
    priority,
    fair_key,
    turn,
    row_number() OVER (PARTITION BY priority, fair_key ORDER BY turn, seq) AS nth,
    row_number() OVER (PARTITION BY priority, fair_key ORDER BY seq) AS nth_item
  FROM turned
  WHERE is_moved
),
members AS (
  SELECT seq, row_number() OVER (PARTITION BY group_key ORDER BY seq) - 1 AS ahead
  FROM sq_reasons
  WHERE group_key IS NOT NULL
)
SELECT
  t.seq,
  cast(coalesce(sum(t.may_run) OVER before, 0) AS bigint) AS ahead,
  cast(coalesce(sum(t.is_held) OVER before, 0) AS bigint) AS held_ahead,
  coalesce(m.ahead, 0) AS members_ahead
FROM turned t
LEFT JOIN slots i ON i.seq = t.seq
LEFT JOIN slots s
  ON s.priority = i.priority AND s.fair_key IS NOT DISTINCT FROM i.fair_key AND s.nth = i.nth_item
LEFT JOIN members m ON m.seq = t.seq
WINDOW before AS (
  ORDER BY t.priority DESC, coalesce(s.turn, t.turn), t.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
)
