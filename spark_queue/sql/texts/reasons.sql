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
