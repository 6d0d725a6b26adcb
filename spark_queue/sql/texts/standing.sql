-- Why open items are not running, and how many come before each.
-- Uses: status, claim.
-- Tables: asked, items, limited, overrides, owed, paused_by, pauses, pointers, taken, weights.

-- with_turn_of_status(own, seq, state, attempts, losses, deferrals, dedup_key, fair_key, group_key, flow_keys, units, chain, priority, round, cost, max_attempts, available_at instant, expires_at instant, deadline instant, waits_since instant, enqueued_at instant, first_claimed_at instant, claimed_at instant, waited, finished_at instant, lease, worker_id, lease_expires_at instant, error, origin, step, gen, moved_step, moved_at instant, moved_error, failed_step, tag, inc, v, s)
-- Open items by their status, for the views of a claim: whether one may start goes by no turn.
SELECT
  s.*, cast(NULL AS double) AS tag, cast(NULL AS double) AS inc, cast(NULL AS double) AS v,
  cast(NULL AS bigint) AS s
FROM sq_status s
WHERE s.state IN ('ready', 'claimed')

-- paused_items_of_status(seq, until)
-- The items of paused keys, and until when: by the rows by which they entered, of which each is seen once.
-- rule: pause of a key
SELECT k.seq, max(p.until) AS until
FROM (
  SELECT i.seq, m.nth, $limited_key(i, m) AS key
  FROM sq_items i
  CROSS JOIN sq_paused_by m
) k
JOIN sq_pauses p ON k.nth = p.nth AND k.key = p.key
GROUP BY k.seq

-- first_members(group_key, held, lost, due)
-- Of each group the first member that is in flight, whose lease ran out, and that is due.
SELECT
  j.group_key,
  min(CASE WHEN j.place IN ('held', 'kept') THEN j.seq END) AS held,
  min(CASE WHEN j.place = 'lost' THEN j.seq END) AS lost,
  min(CASE WHEN j.place = 'due' THEN j.seq END) AS due
FROM sq_with_place_of_status j
WHERE j.over_by IS NULL AND j.group_key IS NOT NULL
GROUP BY j.group_key

-- met_bounds(nth, key)
-- The keys of bounds that open items would meet if all of them started, at least; rates have numbers below zero,
-- the room of the queue has none. Without any, each item by itself says whether it may start. To be sure
-- of a sum of doubles, one that is a millionth below counts.
-- rule: pass of a claim
SELECT k.nth, k.key
FROM (
  SELECT l.nth, l.key, l.most, count(*) AS items
  FROM (
    SELECT m.nth, m.most, $limited_key(j, m) AS key
    FROM sq_with_place_of_status j
    CROSS JOIN sq_limited m
    WHERE m.nth >= 0 AND j.over_by IS NULL AND j.place <> 'delayed'
  ) l
  WHERE l.key IS NOT NULL
  GROUP BY l.nth, l.key, l.most
) k
LEFT JOIN sq_overrides o ON k.nth = o.nth AND k.key = o.key
WHERE k.items > CASE WHEN o.nth IS NULL THEN k.most ELSE o.most END
UNION ALL
SELECT -1 - u.nth AS nth, u.key
FROM (
  SELECT r.nth, r.by, r.key, r.allowance, sum(cast(r.cost AS double)) AS cost
  FROM sq_units_asked_of_status r
  GROUP BY r.nth, r.by, r.key, r.allowance
) u
LEFT JOIN sq_owed d ON u.by = d.by AND u.key = d.key
CROSS JOIN sq_asked a
WHERE u.cost * 1.000001e0 + greatest(0, coalesce(d.tat - a.now * 1000, 0)) > u.allowance
UNION ALL
SELECT cast(NULL AS bigint) AS nth, cast(NULL AS string) AS key
FROM sq_room_of_status m
CROSS JOIN (SELECT count(*) AS items FROM sq_with_place_of_status j WHERE j.place = 'due') n
WHERE m.room < n.items

-- starting_items(seq)
-- The items that wait, and that a claim of any length would take now: others wait behind them.
-- rule: pass of a claim
SELECT j.seq
FROM sq_taken t
JOIN sq_with_place_of_status j ON t.seq = j.seq
WHERE j.place = 'due'

-- flights_of_status(nth, key, items, holder, used)
-- How many items of each key of a limit are in flight, or would be after such a claim, and the first of
-- them; `used` are in flight.
-- rule: limit of a key
SELECT
  k.nth, k.key, count(*) AS items,
  coalesce(min(CASE WHEN NOT k.starts THEN k.seq END), min(k.seq)) AS holder,
  count(CASE WHEN NOT k.starts THEN 1 END) AS used
FROM (
  SELECT j.seq, m.nth, $limited_key(j, m) AS key, t.seq IS NOT NULL AS starts
  FROM sq_with_place_of_status j
  LEFT JOIN sq_starting_items t ON j.seq = t.seq
  CROSS JOIN sq_limited m
  WHERE j.over_by IS NULL AND (j.place IN ('held', 'kept', 'lost') OR t.seq IS NOT NULL)
) k
WHERE k.key IS NOT NULL
GROUP BY k.nth, k.key

-- full_keys(seq, nth, key, used, most, holder, items)
-- Of each item the first key without room, who is in flight of it, and how many there are.
SELECT k.seq, k.nth, k.key, k.used, k.most, k.holder, n.items
FROM sq_kept_back_of_status k
JOIN (
  SELECT f.seq, min(f.nth) AS nth, count(*) AS items FROM sq_kept_back_of_status f GROUP BY f.seq
) n ON k.seq = n.seq AND k.nth = n.nth

-- short_keys(seq, nth, key, by, units, missing, items)
-- Of each item the first key that lacks its units, that of the whole queue at last, for
-- how many nanoseconds, and how many there are.
SELECT k.seq, k.nth, k.key, k.by, k.units, k.missing, k.items
FROM (
  SELECT
    l.*,
    row_number() OVER (PARTITION BY l.seq ORDER BY l.by = '', l.nth) AS place,
    count(*) OVER (PARTITION BY l.seq) AS items
  FROM sq_lacking_units_of_status l
) k
WHERE k.place = 1

-- kept_heads(group_key, seq)
-- The first item of each group that a limit or a rate keeps back.
SELECT k.group_key, min(k.seq) AS seq
FROM (
  SELECT b.group_key, b.seq FROM sq_kept_back_of_status b
  UNION ALL
  SELECT l.group_key, l.seq FROM sq_lacking_units_of_status l
) k
WHERE k.group_key IS NOT NULL AND NOT EXISTS (SELECT 1 FROM sq_taken t WHERE t.seq = k.seq)
GROUP BY k.group_key

-- reasons(seq, state, reason, held_by, full_limit, full_key, used, most, rate, rate_key, rate_units, until instant, more, is_lapsed, fair_key, group_key, flow_keys, enqueued_at instant, moved_at instant, waits_since instant, available_at instant, expires_at instant, attempts, losses, deferrals, lease, worker_id, claimed_at instant, lease_expires_at instant, failed_step)
-- Why each open item is not running, as `explain` says it: the first of lease, pause, end, pause of
-- a key, delay, group, limit of a key, rate of a key, rate of the queue and limit of the queue, and how many
-- `more` there are. `held_by` is the item that is in the way: of its group one
-- that waits for its time, or else the earliest in flight, or else the first that a limit or a rate keeps back; or the
-- first in flight of `full_key`, by the limit at the place `full_limit`, which has `used` of `most`. What
-- the next claim ends is in nobody's way. `rate_key` lacks the `rate_units` of the rate at the place `rate`.
-- A claim of any length would take what is runnable.
-- rule: reason of an item
SELECT
  r.seq,
  r.state,
  r.reason,
  CASE WHEN r.reason = 'held by group'
    THEN CASE WHEN r.is_startable THEN r.kept
      ELSE coalesce(CASE WHEN a.blocking AND g.barrier < r.seq THEN g.barrier END, f.held, f.lost, f.due) END
    WHEN r.reason = 'key limit' THEN r.holder
    WHEN r.reason = 'replaced' THEN r.replaced_by
    WHEN r.reason = 'follows' THEN r.follows
  END AS held_by,
  CASE WHEN r.reason = 'key limit' THEN r.nth END AS full_limit,
  CASE WHEN r.reason = 'key limit' THEN r.key END AS full_key,
  CASE WHEN r.reason = 'key limit' THEN r.used END AS used,
  CASE WHEN r.reason = 'key limit' THEN r.most END AS most,
  CASE WHEN r.reason IN ('key rate', 'rate') THEN r.rate END AS rate,
  CASE WHEN r.reason IN ('key rate', 'rate') THEN r.rate_key END AS rate_key,
  CASE WHEN r.reason IN ('key rate', 'rate') THEN r.rate_units END AS rate_units,
  CASE r.reason
    WHEN 'leased' THEN $freed(r.lease_expires_at, a)
    WHEN 'key paused' THEN nullif(r.kept_until, 9223372036854775807)
    WHEN 'delayed' THEN r.available_at
    WHEN 'key rate' THEN $in_nanoseconds(r.missing, a)
    WHEN 'rate' THEN $in_nanoseconds(r.missing, a)
  END AS until,
  CASE WHEN r.reason IN ('leased', 'runnable') THEN 0 ELSE r.reasons - 1 END AS more,
  r.place = 'lost' AS is_lapsed,
  r.fair_key,
  r.group_key,
  r.flow_keys,
  r.enqueued_at,
  r.moved_at,
  r.waits_since,
  r.available_at,
  r.ends_at AS expires_at,
  r.attempts,
  r.losses,
  r.deferrals,
  r.lease,
  r.worker_id,
  r.claimed_at,
  r.lease_expires_at,
  r.failed_step
FROM (
  SELECT
    j.*, e.seq IS NOT NULL AS is_startable, h.seq AS kept, k.nth, k.key, k.used, k.most, k.holder,
    s.nth AS rate, s.key AS rate_key, s.units AS rate_units, s.missing,
    CASE WHEN b.paused THEN 1 ELSE 0 END + CASE
      WHEN j.over_by IS NOT NULL THEN 1
      WHEN j.place IN ('delayed', 'kept') THEN CASE WHEN j.kept_until > b.now THEN 1 ELSE 0 END
        + CASE WHEN j.follows IS NOT NULL THEN 1 ELSE 0 END
        + CASE WHEN j.by_time = 'delayed' THEN 1 ELSE 0 END
      WHEN e.seq IS NULL OR h.seq < j.seq THEN 1
      ELSE coalesce(k.items, 0) + coalesce(s.items, 0)
        + CASE WHEN j.place = 'due' AND m.room <= n.starting THEN 1 ELSE 0 END
    END AS reasons,
    CASE
      WHEN j.place = 'held' THEN 'leased'
      WHEN b.paused THEN 'paused'
      WHEN j.over_by = 'expired' THEN 'expired'
      WHEN j.over_by = 'dead' THEN 'lease lost'
      WHEN j.over_by = 'cancelled' THEN 'replaced'
      WHEN j.kept_until > b.now THEN 'key paused'
      WHEN j.follows IS NOT NULL THEN 'follows'
      WHEN j.place = 'delayed' THEN 'delayed'
      WHEN t.seq IS NOT NULL THEN 'runnable'
      WHEN e.seq IS NULL OR h.seq < j.seq THEN 'held by group'
      WHEN k.seq IS NOT NULL THEN 'key limit'
      WHEN s.by = '' THEN 'rate'
      WHEN s.seq IS NOT NULL THEN 'key rate'
      WHEN j.place = 'due' AND m.room <= n.starting THEN 'limit'
      ELSE 'runnable'
    END AS reason
  FROM sq_with_place_of_status j
  LEFT JOIN sq_startable_items_of_status e ON j.seq = e.seq
  LEFT JOIN sq_taken t ON j.seq = t.seq
  LEFT JOIN sq_kept_heads h ON j.group_key = h.group_key
  LEFT JOIN sq_full_keys k ON j.seq = k.seq
  LEFT JOIN sq_short_keys s ON j.seq = s.seq
  CROSS JOIN sq_room_of_status m
  CROSS JOIN (SELECT count(*) AS starting FROM sq_starting_items) n
  CROSS JOIN sq_asked b
) r
LEFT JOIN sq_group_slots_of_status g ON r.group_key = g.group_key
LEFT JOIN sq_first_members f ON r.group_key = f.group_key
CROSS JOIN sq_asked a

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

-- counts_by_reason(reason, items)
-- How many open items there are by the reason why they are not running.
SELECT r.reason, count(*) AS items
FROM sq_reasons r
GROUP BY r.reason
ORDER BY r.reason

-- longest_wait(seq, reason, since instant)
-- The ready item that has waited longest, and why it is not running.
SELECT r.seq, r.reason, r.waits_since AS since
FROM sq_reasons r
CROSS JOIN sq_asked a
WHERE r.state = 'ready' AND r.waits_since <= a.now
ORDER BY r.waits_since, r.seq
LIMIT 1

-- waiting_turns(seq, priority, fair_key, group_key, tag, inc, v, s, place, over_by)
-- What waits, on the scale of its key's weight. In a paused queue that is also what the next claim ends.
SELECT
  j.seq, j.priority, j.fair_key, j.group_key,
  $turn(j.round, w) AS tag,
  $moves(j.cost, w) AS inc,
  coalesce(p.turn, 0e0) AS v,
  coalesce(p.seq, 0) AS s,
  j.place, j.over_by
FROM sq_with_place_of_status j
LEFT JOIN sq_weights w ON j.fair_key = w.fair_key AND j.priority = w.priority
LEFT JOIN sq_pointers p ON j.priority = p.priority
CROSS JOIN sq_asked a
WHERE j.place <> 'held' AND (j.over_by IS NULL OR a.paused)

-- eligible_items_of_status(seq, priority, fair_key, group_key, tag, inc, v, s, place, late, overdue)
-- The items that may start, for the views of a claim. Turns that a line was given are not looked at.
SELECT
  t.seq, t.priority, t.fair_key, t.group_key, t.tag, t.inc, t.v, t.s, t.place,
  cast(NULL AS double) AS late,
  NOT $ahead(t.tag, t.seq, t.v, t.s) AS overdue
FROM sq_waiting_turns t
JOIN sq_startable_items_of_status e ON t.seq = e.seq

-- places_in_line(seq, ahead, held_ahead, members_ahead)
-- How many items come before each that waits, if no other comes, in the order of service: those that may
-- run, and those that their group holds. `members_ahead` are the open items before it in its group.
SELECT
  t.seq,
  cast(coalesce(count(r.seq) OVER before, 0) AS bigint) AS ahead,
  cast(coalesce(
    count(CASE WHEN r.seq IS NULL AND t.place NOT IN ('delayed', 'kept') AND t.over_by IS NULL THEN 1 END) OVER before, 0
  ) AS bigint) AS held_ahead,
  coalesce(m.ahead, 0) AS members_ahead
FROM sq_waiting_turns t
LEFT JOIN sq_with_slot_of_status r ON t.seq = r.seq
LEFT JOIN (
  SELECT j.seq, row_number() OVER (PARTITION BY j.group_key ORDER BY j.seq) - 1 AS ahead
  FROM sq_with_place_of_status j
  WHERE j.group_key IS NOT NULL
) m ON t.seq = m.seq
WINDOW before AS (
  ORDER BY $in_order(t.priority, coalesce(r.slot, t.tag), t.seq)
  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
)
