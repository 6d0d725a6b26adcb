-- The walk of a claim, from open items to the rows that it writes.
-- Uses: log, open_items.
-- Tables: asked, chosen, chosen_when_full, closed, debts, limited, overrides, pointers, rate_overrides, rates, reached, waiting, weights.

-- recovery_facts(without_times, lapsed)
-- Of touched items: how many open ones lack the time of their enqueue, as rows of a front do, and how
-- many have a lease that ran out.
SELECT
  count(CASE WHEN l.enqueued_at IS NULL THEN 1 END) AS without_times,
  count(CASE WHEN l.state = 'claimed' AND $freed(l.held_until, a) <= a.now THEN 1 END) AS lapsed
FROM sq_open_rows l
CROSS JOIN sq_asked a

-- lapsed_leases(lease)
-- The leases that ran out.
SELECT DISTINCT l.lease
FROM sq_open_rows l
CROSS JOIN sq_asked a
WHERE l.state = 'claimed' AND $freed(l.held_until, a) <= a.now

-- items_without_times(seq)
-- Open items whose newest row lacks the time of their enqueue, as rows of a front do.
SELECT l.seq FROM sq_open_rows l WHERE l.enqueued_at IS NULL

-- items_by_time(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, ends_at instant, by_time)
-- Open items with the place that they have by time alone. A lease that ran out and is spared still holds
-- its items.
-- rule: place at an instant
SELECT
  t.*,
  $deadline(t.expires_at, t.enqueued_at, b) AS ends_at,
  CASE
    WHEN t.state = 'claimed' AND $freed(t.lease_expires_at, b) <= b.now
      AND NOT array_contains(b.spared, t.lease) THEN 'lost'
    WHEN t.state = 'claimed' THEN 'held'
    WHEN t.available_at > b.now THEN 'delayed'
    ELSE 'due'
  END AS by_time
FROM sq_with_turn t
CROSS JOIN sq_asked b

-- chained_items(seq, chain, is_busy, is_over)
-- The items that replace each other, by the first of them: whether each has begun, and whether the next
-- claim ends it.
-- rule: busy item of a key
SELECT
  j.seq, coalesce(j.chain, j.seq) AS chain,
  j.state = 'claimed' OR j.attempts > 0 OR j.losses > 0 OR j.deferrals > 0 AS is_busy,
  $over_by(j, a) IS NOT NULL AS is_over
FROM sq_items_by_time j
CROSS JOIN sq_asked a
WHERE
  j.chain IS NOT NULL
  OR EXISTS (SELECT 1 FROM sq_items_by_time c WHERE c.chain = j.seq)

-- chain_places(seq, replaced_by, follows)
-- Of each the newest item that has replaced it, or the one that has begun and that it waits for.
-- rule: replaced item of a key
SELECT
  q.seq,
  CASE WHEN NOT q.is_busy AND q.seq < q.waits THEN q.newest END AS replaced_by,
  CASE WHEN q.seq = q.waits THEN q.busy END AS follows
FROM (
  SELECT
    c.*,
    max(c.seq) OVER (PARTITION BY c.chain) AS newest,
    max(CASE WHEN NOT c.is_busy THEN c.seq END) OVER (PARTITION BY c.chain) AS waits,
    min(CASE WHEN c.is_busy AND NOT c.is_over THEN c.seq END) OVER (PARTITION BY c.chain) AS busy
  FROM sq_chained_items c
) q

-- timed_items(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, ends_at instant, by_time, over_by, replaced_by, follows)
-- The same with the state that ends them, if one does.
-- rule: deadline of an item, loss of a lease
SELECT j.*, $over_by(j, a) AS over_by, cast(NULL AS bigint) AS replaced_by, cast(NULL AS bigint) AS follows
FROM sq_items_by_time j
CROSS JOIN sq_asked a

-- timed_items_with_chains(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, ends_at instant, by_time, over_by, replaced_by, follows)
-- The same where items replace each other.
-- rule: deadline of an item, loss of a lease, replaced item of a key
SELECT
  j.*,
  coalesce($over_by(j, a), CASE WHEN c.replaced_by IS NOT NULL THEN 'cancelled' END) AS over_by,
  c.replaced_by, c.follows
FROM sq_items_by_time j
LEFT JOIN sq_chain_places c ON j.seq = c.seq
CROSS JOIN sq_asked a

-- replaced_items(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, ends_at instant, by_time, over_by, replaced_by, follows, error)
-- The items that the next claim ends as another one of their key has replaced them.
SELECT t.*, concat('replaced by ', t.replaced_by) AS error
FROM sq_timed_items t
WHERE t.over_by = 'cancelled'

-- with_place(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, ends_at instant, by_time, over_by, replaced_by, follows, kept_until, place)
-- Open items with their place now. One that is kept out of the lines waits for its time; or its lease ran
-- out, and it keeps its slots.
-- rule: place at an instant
SELECT
  t.*, k.until AS kept_until,
  CASE
    WHEN t.follows IS NULL AND (k.until IS NULL OR k.until <= a.now) THEN t.by_time
    WHEN t.by_time = 'due' THEN 'delayed'
    WHEN t.by_time = 'lost' THEN 'kept'
    ELSE t.by_time
  END AS place
FROM sq_timed_items t
LEFT JOIN sq_kept_items k ON t.seq = k.seq
CROSS JOIN sq_asked a

-- with_place_by_time(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, ends_at instant, by_time, over_by, replaced_by, follows, kept_until, place)
-- The same where no key is paused.
-- rule: place at an instant
SELECT
  t.*, cast(NULL AS bigint) AS kept_until,
  CASE WHEN t.follows IS NOT NULL AND t.by_time = 'due' THEN 'delayed' ELSE t.by_time END AS place
FROM sq_timed_items t

-- room(room)
-- How many items may start that have no slot yet; null without a limit.
-- rule: room of a claim
SELECT
  CASE WHEN max(a.max_in_flight) IS NOT NULL
    THEN greatest(0, max(a.max_in_flight)
      - count(CASE WHEN j.over_by IS NULL AND j.place IN ('held', 'kept', 'lost') THEN 1 END))
  END AS room
FROM sq_asked a
LEFT JOIN sq_with_place j ON true

-- group_slots(group_key, held, lost, barrier)
-- Of each group: slots in use, slots kept by leases that ran out, and the first member that waits for
-- its time.
-- rule: slots of a group
SELECT
  j.group_key,
  count(CASE WHEN j.place IN ('held', 'kept') THEN 1 END) AS held,
  count(CASE WHEN j.place = 'lost' THEN 1 END) AS lost,
  min(CASE WHEN j.place = 'delayed' THEN j.seq END) AS barrier
FROM sq_with_place j
WHERE j.over_by IS NULL AND j.group_key IS NOT NULL
GROUP BY j.group_key

-- startable_items(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place)
-- The items that their group lets start. Of a run of k: all slots of the group at once, or none.
-- rule: slots of a group, waiting head of a group, run of a group
SELECT m.seq, m.priority, m.fair_key, m.group_key, m.flow_keys, m.tag, m.inc, m.v, m.s, m.place
FROM (
  SELECT j.*, row_number() OVER (PARTITION BY j.group_key, j.place ORDER BY j.seq) AS nth
  FROM sq_with_place j
  WHERE j.over_by IS NULL AND j.group_key IS NOT NULL AND j.place IN ('due', 'lost')
) m
JOIN sq_group_slots g ON m.group_key = g.group_key
CROSS JOIN sq_asked a
WHERE
  m.nth <= CASE WHEN a.run > 1 AND g.held > 0 THEN 0 ELSE a.group_limit * a.run - g.held END
    - CASE WHEN m.place = 'due' THEN g.lost ELSE 0 END
  AND (NOT a.blocking OR g.barrier IS NULL OR m.seq < g.barrier)
UNION ALL
SELECT j.seq, j.priority, j.fair_key, j.group_key, j.flow_keys, j.tag, j.inc, j.v, j.s, j.place
FROM sq_with_place j
WHERE j.over_by IS NULL AND j.group_key IS NULL AND j.place IN ('due', 'lost')

-- startable_items_one_by_one(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place)
-- If one member of a group runs at a time, the first of those whose lease ran out may start, or else the
-- first one: to find it takes a fifth of the time of numbering all.
-- rule: slots of a group, waiting head of a group
SELECT m.seq, m.priority, m.fair_key, m.group_key, m.flow_keys, m.tag, m.inc, m.v, m.s, m.place
FROM (
  SELECT
    min(CASE WHEN j.place = 'lost' THEN j.seq END) AS lost,
    min(CASE WHEN j.place = 'due' THEN j.seq END) AS due,
    min(CASE WHEN j.place = 'delayed' THEN j.seq END) AS barrier
  FROM sq_with_place j
  WHERE j.over_by IS NULL AND j.group_key IS NOT NULL
  GROUP BY j.group_key
  HAVING count(CASE WHEN j.place IN ('held', 'kept') THEN 1 END) = 0
) g
JOIN sq_with_place m ON m.seq = coalesce(g.lost, g.due)
CROSS JOIN sq_asked a
WHERE NOT a.blocking OR g.barrier IS NULL OR m.seq < g.barrier
UNION ALL
SELECT j.seq, j.priority, j.fair_key, j.group_key, j.flow_keys, j.tag, j.inc, j.v, j.s, j.place
FROM sq_with_place j
WHERE j.over_by IS NULL AND j.group_key IS NULL AND j.place IN ('due', 'lost')

-- startable_items_without_groups(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place)
-- In a queue without groups every item may start.
-- rule: slots of a group
SELECT j.seq, j.priority, j.fair_key, j.group_key, j.flow_keys, j.tag, j.inc, j.v, j.s, j.place
FROM sq_with_place j
WHERE j.over_by IS NULL AND j.place IN ('due', 'lost')

-- flights(nth, key, items, holder, used)
-- How many items of each key of a limit are in flight, and the first of them.
-- rule: limit of a key
SELECT k.nth, k.key, count(*) AS items, min(k.seq) AS holder, count(*) AS used
FROM (
  SELECT j.seq, m.nth, $limited_key(j, m) AS key
  FROM sq_with_place j
  CROSS JOIN sq_limited m
  WHERE j.over_by IS NULL AND j.place IN ('held', 'kept', 'lost')
) k
WHERE k.key IS NOT NULL
GROUP BY k.nth, k.key

-- keys_in_flight(nth, key, items, room)
-- The same, and for how many more the limit has room; null for any number.
-- rule: limit of a key
SELECT
  f.nth, f.key, f.items,
  CASE WHEN o.nth IS NULL THEN m.most ELSE o.most END - f.items AS room
FROM sq_flights f
JOIN sq_limited m ON f.nth = m.nth
LEFT JOIN sq_overrides o ON f.nth = o.nth AND f.key = o.key

-- kept_back(seq, group_key, nth, key, used, most, holder)
-- The items that may not start as a limit has no room for their key, by limit.
-- rule: limit of a key
SELECT l.seq, l.group_key, l.nth, l.key, l.used, l.most, l.holder
FROM (
  SELECT
    k.seq, k.group_key, k.nth, k.key, f.holder,
    coalesce(f.items, 0) AS items, coalesce(f.used, 0) AS used,
    CASE WHEN o.nth IS NULL THEN k.most ELSE o.most END AS most
  FROM (
    SELECT e.seq, e.group_key, m.nth, m.most, $limited_key(e, m) AS key
    FROM sq_startable_items e
    CROSS JOIN sq_limited m
    WHERE e.place = 'due' AND m.nth >= 0
  ) k
  LEFT JOIN sq_overrides o ON k.nth = o.nth AND k.key = o.key
  LEFT JOIN sq_flights f ON k.nth = f.nth AND k.key = f.key
  WHERE k.key IS NOT NULL
) l
WHERE l.items >= l.most

-- nothing_kept_back(seq, group_key, nth, key, used, most, holder)
-- Where keys have any number in flight there are none.
-- rule: limit of a key
SELECT m.nth AS seq, m.path AS group_key, m.nth, m.path AS key, m.nth AS used, m.most, m.nth AS holder
FROM sq_limited m

-- units_asked(seq, group_key, nth, key, by, units, per, cost, allowance)
-- What the items that may start take of their keys: how many nanoseconds of a key, and how many ahead
-- it may be: 100 years at most. Numbers of more than 53 bits are a nanosecond off.
-- rule: rate of a key
SELECT
  q.seq, q.group_key, q.nth, q.key, q.by, q.units, q.per,
  cast(least(ceil(q.units * q.per / q.most), 315576e13) AS bigint) AS cost,
  cast(least(ceil(coalesce(q.burst, greatest(1e0, q.most * 25e7 / q.per)) * ceil(q.per / q.most)), 315576e13)
    AS bigint) AS allowance
FROM (
  SELECT
    k.seq, k.group_key, k.nth, k.key, k.by, k.units, k.per, k.burst,
    CASE WHEN o.nth IS NULL THEN k.most ELSE o.most END AS most
  FROM (
    SELECT
      e.seq, e.group_key, m.nth, m.by, m.per, m.burst, m.most,
      CASE WHEN m.by = '' THEN '' ELSE $limited_key(j, m) END AS key,
      coalesce(cast(get_json_object(j.units, m.units_path) AS double), 1e0) AS units
    FROM sq_startable_items e
    JOIN sq_with_place j ON e.seq = j.seq
    CROSS JOIN sq_rates m
  ) k
  LEFT JOIN sq_rate_overrides o ON k.nth = o.nth AND k.key = o.key
  WHERE k.key IS NOT NULL
) q
WHERE q.most IS NOT NULL

-- lacking_units(seq, group_key, nth, key, by, units, missing)
-- The items that may not start as a key of a rate lacks their units, by rate, and for how many nanoseconds:
-- no less than the one that closed the key.
-- rule: rate of a key, debt of a key, debt ahead of a clock
SELECT l.seq, l.group_key, l.nth, l.key, l.by, l.units, l.missing
FROM (
  SELECT
    u.*,
    greatest(CASE
      WHEN d.ahead <= u.allowance THEN d.owed - greatest(0, u.allowance - u.cost)
      WHEN d.since_righted < u.per
        THEN least(d.owed - greatest(0, u.allowance - u.cost), u.per - d.since_righted)
      ELSE 0
    END, coalesce(d.shut, 0)) AS missing
  FROM sq_units_asked u
  JOIN (
    SELECT
      o.by, o.key, o.tat - a.now * 1000 AS owed, o.at - a.now * 1000 AS ahead,
      a.now * 1000 - o.righted AS since_righted, o.shut - a.now * 1000 AS shut
    FROM sq_debts o
    CROSS JOIN sq_asked a
  ) d ON u.by = d.by AND u.key = d.key
) l
WHERE l.missing > 0

-- no_lacking_units(seq, group_key, nth, key, by, units, missing)
-- Where no key owes anything there are none.
-- rule: rate of a key
SELECT m.nth AS seq, m.by AS group_key, m.nth, m.by AS key, m.by, m.most AS units, m.nth AS missing
FROM sq_rates m

-- kept_groups(group_key, seq)
-- The first item of each group that a limit keeps back.
-- rule: pass of a claim
SELECT k.group_key, min(k.seq) AS seq FROM sq_kept_back k WHERE k.group_key IS NOT NULL GROUP BY k.group_key

-- standing_items(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place)
-- The items that stand in the lines.
SELECT e.* FROM sq_startable_items e

-- standing_items_with_limits(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place)
-- What a limit keeps back stands in no line, and has no turn.
-- rule: limit of a key
SELECT e.*
FROM sq_startable_items e
WHERE NOT EXISTS (SELECT 1 FROM sq_kept_back k WHERE k.seq = e.seq)

-- eligible_items(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place, late, overdue)
-- The items that may start, and whether the order has passed them.
-- rule: overdue item
SELECT
  e.*, k.late,
  NOT $ahead(e.tag, e.seq, e.v, e.s) OR coalesce(e.tag <= k.regular, false) AS overdue
FROM sq_standing_items e
LEFT JOIN sq_line_turns k ON e.priority = k.priority AND e.fair_key IS NOT DISTINCT FROM k.fair_key

-- eligible_items_in_one_line(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place, late, overdue)
-- Without a fair key there is one line, in the order of seq: no item is overdue.
-- rule: one line without keys
SELECT e.*, cast(NULL AS double) AS late, false AS overdue FROM sq_standing_items e

-- reach_facts(eligible, overdue, lapsed, newest, ended, room)
-- Counts within reach: eligible items, overdue and lapsed ones of them, and items that end; and the newest
-- of the eligible ones.
SELECT p.eligible, p.overdue, p.lapsed, p.newest, j.ended, m.room
FROM (
  SELECT
    count(*) AS eligible,
    count(CASE WHEN overdue THEN 1 END) AS overdue,
    count(CASE WHEN place = 'lost' THEN 1 END) AS lapsed,
    max(seq) AS newest
  FROM sq_eligible_items
) p
CROSS JOIN (SELECT count(*) AS ended FROM sq_with_place WHERE over_by IS NOT NULL) j
CROSS JOIN sq_room m

-- overdue_lines(priority, fair_key)
-- Lines with an overdue item: their items take the line's slots by seq.
SELECT DISTINCT priority, fair_key FROM sq_eligible_items WHERE overdue

-- overdue_line_items(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place, late, overdue, nth)
-- The eligible items of those lines, numbered by seq.
SELECT p.*, row_number() OVER (PARTITION BY p.priority, p.fair_key ORDER BY p.seq) AS nth
FROM sq_eligible_items p
JOIN sq_overdue_lines z ON p.priority = z.priority AND p.fair_key IS NOT DISTINCT FROM z.fair_key

-- overdue_turns(seq, turn)
-- The turns of overdue items. The first of a line has the turn where the order stands, or a round behind
-- the last that the line was given; each other is a round behind the one before. The first may have
-- digits that increments have not: so those are added up first.
-- rule: slots of a line
SELECT
  q.seq,
  q.first_turn
    + sum(CASE WHEN q.nth = 1 THEN 0e0 ELSE q.inc END)
      OVER (PARTITION BY q.priority, q.fair_key ORDER BY q.seq ROWS UNBOUNDED PRECEDING) AS turn
FROM (
  SELECT
    o.*,
    max(CASE WHEN o.nth = 1 THEN greatest(o.v, o.late + o.inc) END)
      OVER (PARTITION BY o.priority, o.fair_key) AS first_turn
  FROM (
    SELECT
      p.seq, p.priority, p.fair_key, p.v, p.late, p.inc,
      row_number() OVER (PARTITION BY p.priority, p.fair_key ORDER BY p.seq) AS nth
    FROM sq_eligible_items p
    WHERE p.overdue
  ) o
) q

-- line_slots(priority, fair_key, turn, overdue, nth)
-- The slots of those lines, numbered by turn: the tags of items on time, and the turns of overdue ones.
-- rule: slots of a line
SELECT
  t.priority, t.fair_key, t.turn, t.overdue,
  row_number() OVER (PARTITION BY t.priority, t.fair_key ORDER BY t.turn, t.overdue, t.seq) AS nth
FROM (
  SELECT
    o.priority, o.fair_key, o.seq, o.overdue,
    CASE WHEN o.overdue THEN r.turn ELSE o.tag END AS turn
  FROM sq_overdue_line_items o
  LEFT JOIN sq_overdue_turns r ON o.seq = r.seq
) t

-- with_slot(seq, priority, fair_key, group_key, place, slot, overdue)
-- Each eligible item with its slot: its own tag, or the slot at its place in its line.
-- rule: slots of a line
SELECT p.seq, p.priority, p.fair_key, p.group_key, p.place, p.tag AS slot, p.overdue
FROM sq_eligible_items p
LEFT JOIN sq_overdue_lines z ON p.priority = z.priority AND p.fair_key IS NOT DISTINCT FROM z.fair_key
WHERE z.priority IS NULL
UNION ALL
SELECT o.seq, o.priority, o.fair_key, o.group_key, o.place, s.turn AS slot, s.overdue
FROM sq_overdue_line_items o
JOIN sq_line_slots s ON o.priority = s.priority AND o.fair_key IS NOT DISTINCT FROM s.fair_key AND o.nth = s.nth

-- with_slot_by_tag(seq, priority, fair_key, group_key, place, slot, overdue)
-- If no item is overdue, each has its own tag.
-- rule: slots of a line
SELECT p.seq, p.priority, p.fair_key, p.group_key, p.place, p.tag AS slot, p.overdue
FROM sq_eligible_items p

-- ranked_items(seq, priority, fair_key, group_key, place, slot, overdue, turn, rank_priority, rank_turn)
-- A member comes no earlier than those before it in its group: its turn is no lower than theirs of
-- its priority, and it is ranked behind the lowest priority among them.
-- rule: later member of a group
SELECT
  c.*,
  max(CASE WHEN c.priority = c.rank_priority THEN c.turn END)
    OVER (PARTITION BY c.group_key, c.rank_priority ORDER BY c.seq) AS rank_turn
FROM (
  SELECT
    t.*,
    max(t.slot) OVER (PARTITION BY t.group_key, t.priority ORDER BY t.seq) AS turn,
    min(t.priority) OVER (PARTITION BY t.group_key ORDER BY t.seq) AS rank_priority
  FROM sq_with_slot t WHERE t.group_key IS NOT NULL
) c
UNION ALL
SELECT t.*, t.slot AS turn, t.priority AS rank_priority, t.slot AS rank_turn
FROM sq_with_slot t WHERE t.group_key IS NULL

-- ranked_items_one_by_one(seq, priority, fair_key, group_key, place, slot, overdue, turn, rank_priority, rank_turn)
-- If one member of a group starts at a time, it comes at its own slot.
-- rule: later member of a group
SELECT t.*, t.slot AS turn, t.priority AS rank_priority, t.slot AS rank_turn FROM sq_with_slot t

-- counts_within_reach(priority, items)
-- How many eligible items come within reach, by the priority at which they come.
-- rule: reach of a claim
SELECT r.rank_priority AS priority, count(*) AS items
FROM sq_ranked_items r
LEFT JOIN sq_pointers p ON r.rank_priority = p.priority
CROSS JOIN sq_asked a
WHERE r.rank_turn <= coalesce(p.turn, 0e0) + a.reach
GROUP BY r.rank_priority

-- items_beyond_reach(seq, priority, fair_key, group_key, chain)
-- Untouched items beyond reach.
-- rule: reach of a claim
SELECT q.seq, q.priority, q.fair_key, q.group_key, q.chain
FROM (
  SELECT
    i.seq, i.step, i.priority, i.fair_key, i.group_key, coalesce(i.chain, i.seq) AS chain,
    $turn(i.round, w) AS tag,
    coalesce(p.turn, 0e0) AS v,
    coalesce(p.checkpoint_turn, 0e0) AS checkpoint_turn,
    coalesce(p.checkpoint_seq, 0) AS checkpoint_seq
  FROM sq_waiting i
  LEFT JOIN sq_last_steps l ON i.seq = l.seq
  LEFT JOIN sq_weights w ON i.fair_key = w.fair_key AND i.priority = w.priority
  LEFT JOIN sq_pointers p ON i.priority = p.priority
  WHERE l.seq IS NULL
) q
CROSS JOIN sq_asked a
WHERE
  q.step > a.since_step AND q.step <= a.queue_step
  AND $unknown(q, a)
  AND q.tag > q.v + a.reach

-- line_items_beyond_reach(seq, group_key)
-- Those that precede an item within reach in a line with an overdue item.
-- rule: reach of a claim
SELECT f.seq, f.group_key
FROM sq_items_beyond_reach f
JOIN (
  SELECT p.priority, p.fair_key, max(p.seq) AS upto
  FROM sq_eligible_items p
  GROUP BY p.priority, p.fair_key
  HAVING bool_or(p.overdue)
) n ON f.priority = n.priority AND f.fair_key IS NOT DISTINCT FROM n.fair_key AND f.seq < n.upto

-- predecessors(seq)
-- Items beyond reach that precede one within it: in a line with an overdue item, or in a group whose
-- members are in several lines. Tags prune; they are not the order.
-- rule: reach of a claim
SELECT f.seq
FROM sq_items_beyond_reach f
JOIN (
  SELECT m.group_key, max(m.seq) AS upto
  FROM (
    SELECT p.seq, p.group_key FROM sq_eligible_items p
    UNION ALL
    SELECT o.seq, o.group_key FROM sq_line_items_beyond_reach o
  ) m
  WHERE m.group_key IS NOT NULL
  GROUP BY m.group_key
) g ON f.group_key = g.group_key AND f.seq < g.upto
UNION
SELECT l.seq FROM sq_line_items_beyond_reach l

-- predecessors_with_chains(seq)
-- The same, and those of the chain of any item within reach: of them only the newest may start.
-- rule: reach of a claim
SELECT p.seq FROM sq_predecessors p
UNION
SELECT f.seq
FROM sq_items_beyond_reach f
WHERE EXISTS (SELECT 1 FROM sq_with_place j WHERE coalesce(j.chain, j.seq) = f.chain)

-- eligible_beyond_reach(seq)
-- The eligible items beyond reach.
-- rule: reach of a claim
SELECT e.seq FROM sq_eligible_items e CROSS JOIN sq_asked a WHERE e.tag > e.v + a.reach LIMIT 1

-- first_in_order(seq, priority, fair_key, group_key, place, slot, overdue, turn, rank_priority, rank_turn, pos, starts)
-- The first items in the order of service, up to the one that finds no slot.
SELECT f.*
FROM (
  SELECT
    o.*,
    row_number() OVER (ORDER BY $in_order(o.rank_priority, o.rank_turn, o.seq)) AS pos,
    count(CASE WHEN o.place = 'due' THEN 1 END)
      OVER (ORDER BY $in_order(o.rank_priority, o.rank_turn, o.seq) ROWS UNBOUNDED PRECEDING) AS starts
  FROM (
    SELECT r.*
    FROM sq_ranked_items r
    ORDER BY $in_order(r.rank_priority, r.rank_turn, r.seq) LIMIT $limit
  ) o
) f
CROSS JOIN sq_room m
WHERE m.room IS NULL OR (m.room > 0 AND f.starts <= m.room)

-- items_behind(seq, priority, turn, place, fair_key, group_key)
-- What comes behind an item in the order of service.
SELECT r.seq, r.rank_priority AS priority, r.rank_turn AS turn, r.place, r.fair_key, r.group_key
FROM sq_ranked_items r
CROSS JOIN sq_reached p
WHERE
  r.rank_priority < p.priority
  OR (r.rank_priority = p.priority AND $ahead(r.rank_turn, r.seq, p.turn, p.seq))

-- pass_candidates(seq, priority, turn, place, fair_key, group_key, flow_keys, units)
-- The next items in the order of service, behind one of them.
-- rule: pass of a claim
SELECT c.*, j.flow_keys, j.units
FROM (SELECT b.* FROM sq_items_behind b ORDER BY $in_order(b.priority, b.turn, b.seq) LIMIT $limit) c
JOIN sq_with_place j ON c.seq = j.seq
ORDER BY $in_order(c.priority, c.turn, c.seq)

-- pass_candidates_of_open_keys(seq, priority, turn, place, fair_key, group_key, flow_keys, units)
-- The same, without those that would be passed as a key of theirs is closed in this claim.
-- rule: pass of a claim
SELECT c.*, j.flow_keys, j.units
FROM (
  SELECT b.*
  FROM sq_items_behind b
  WHERE NOT EXISTS (
    SELECT 1
    FROM (
      SELECT e.seq, m.nth, $limited_key(e, m) AS key
      FROM sq_eligible_items e
      CROSS JOIN sq_limited m
      WHERE e.place = 'due'
    ) k
    JOIN sq_closed c ON k.nth = c.nth AND k.key = c.key
    WHERE k.seq = b.seq
  )
  ORDER BY $in_order(b.priority, b.turn, b.seq) LIMIT $limit
) c
JOIN sq_with_place j ON c.seq = j.seq
ORDER BY $in_order(c.priority, c.turn, c.seq)

-- first_in_order_by_pass(seq, priority, fair_key, group_key, place, slot, overdue, turn, rank_priority, rank_turn, pos, starts)
-- The items that the pass has taken.
-- rule: pass of a claim
SELECT r.*, c.pos, 0 AS starts
FROM sq_ranked_items r
JOIN sq_chosen c ON r.seq = c.seq

-- line_turns_when_full(priority, fair_key, regular, late)
-- The turns of lines after the first stage.
-- rule again: turns handed out
SELECT u.priority, u.fair_key, max(u.regular) AS regular, max(u.late) AS late
FROM (
  SELECT priority, fair_key, regular, late FROM sq_line_turns
  UNION ALL
  SELECT priority, fair_key, CASE WHEN NOT overdue THEN slot END, CASE WHEN overdue THEN slot END
  FROM sq_first_in_order
) u
GROUP BY u.priority, u.fair_key

-- startable_items_when_full(seq, priority, fair_key, group_key, flow_keys, tag, inc, v, s, place)
-- The second stage: an item whose lease ran out and that the first stage left has its slot. It comes as
-- if no other waited, from where the order stands after the first stage (`p`).
-- rule: lapsed items of a full queue, turns handed out
SELECT
  e.seq, e.priority, e.fair_key, e.group_key, e.flow_keys, e.tag, e.inc,
  coalesce(p.turn, 0e0) AS v, coalesce(p.seq, 0) AS s, e.place
FROM sq_startable_items e
LEFT JOIN sq_first_in_order f ON e.seq = f.seq
LEFT JOIN (
  SELECT u.priority, max(u.turn) AS turn, max(CASE WHEN u.turn = u.top THEN u.seq END) AS seq
  FROM (
    SELECT b.*, max(b.turn) OVER (PARTITION BY b.priority) AS top
    FROM (
      SELECT priority, turn, seq FROM sq_pointers
      UNION ALL
      SELECT priority, turn, seq FROM sq_first_in_order
    ) b
  ) u
  GROUP BY u.priority
) p ON e.priority = p.priority
WHERE e.place = 'lost' AND f.seq IS NULL

-- granted_items(seq, turn, overdue, stage, pos)
-- The items that the claim gets, in order. After the first that finds no slot, only those that have one.
-- rule: lapsed items of a full queue
SELECT seq, turn, overdue, stage, pos
FROM (
  SELECT f.*, 1 AS stage FROM sq_first_in_order f
  UNION ALL
  SELECT
    o.*, row_number() OVER (ORDER BY $in_order(o.rank_priority, o.rank_turn, o.seq)) AS pos, 0 AS starts,
    2 AS stage
  FROM sq_ranked_items_when_full o
) b
ORDER BY stage, pos LIMIT $limit

-- granted_items_in_one_stage(seq, turn, overdue, stage, pos)
-- The same without a second stage: no item has a slot already.
-- rule: lapsed items of a full queue
SELECT seq, turn, overdue, 1 AS stage, pos FROM sq_first_in_order

-- granted_items_with_limits(seq, turn, overdue, stage, pos)
-- The same in a queue with bounds of keys: the pass has taken the lapsed items, too.
-- rule: lapsed items of a full queue, pass of a claim
SELECT f.seq, f.turn, f.overdue, 1 AS stage, f.pos FROM sq_first_in_order f
UNION ALL
SELECT o.seq, o.turn, o.overdue, 2 AS stage, c.pos
FROM sq_ranked_items_when_full o
JOIN sq_chosen_when_full c ON o.seq = c.seq

-- lapsed_candidates(seq, priority, turn, place, fair_key, group_key, flow_keys, units)
-- The items of the second stage in their order.
-- rule: lapsed items of a full queue, pass of a claim
SELECT
  o.seq, o.rank_priority AS priority, o.rank_turn AS turn, o.place, o.fair_key, o.group_key, j.flow_keys,
  j.units
FROM sq_ranked_items_when_full o
JOIN sq_with_place j ON o.seq = j.seq
ORDER BY $in_order(o.rank_priority, o.rank_turn, o.seq)

-- due_with_lapsed(seq, priority, turn, place, fair_key, group_key, flow_keys, units)
-- The members of groups that wait for a slot of the queue while others of them are lapsed.
-- rule: lapsed items of a full queue, pass of a claim
SELECT e.seq, e.priority, e.tag AS turn, e.place, e.fair_key, e.group_key, e.flow_keys, j.units
FROM sq_startable_items e
JOIN sq_with_place j ON e.seq = j.seq
WHERE e.place = 'due' AND EXISTS (
  SELECT 1 FROM sq_startable_items o WHERE o.place = 'lost' AND o.group_key = e.group_key AND o.seq > e.seq
)

-- claim_rows(seq, gen, state, was, attempts, losses, deferrals, error, turn, overdue, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, stage, pos)
-- The rows of a claim: the items that it gets, in order, and the items that end.
-- rule: loss of a lease
SELECT
  j.seq, j.gen, 'claimed' AS state, j.state AS was, j.attempts,
  j.losses + CASE WHEN j.place = 'lost' THEN 1 ELSE 0 END AS losses, j.deferrals,
  cast(NULL AS string) AS error,
  g.turn, g.overdue,
  $schedule(j),
  g.stage, g.pos
FROM sq_granted_items g
JOIN sq_with_place j ON g.seq = j.seq
UNION ALL
SELECT
  j.seq, j.gen, j.over_by AS state, j.state AS was, j.attempts,
  j.losses + CASE WHEN j.over_by = 'dead' THEN 1 ELSE 0 END AS losses, j.deferrals,
  CASE j.over_by WHEN 'dead' THEN 'lease lost' WHEN 'cancelled' THEN concat('replaced by ', j.replaced_by) END AS error,
  cast(NULL AS double) AS turn, cast(NULL AS boolean) AS overdue,
  $schedule(j),
  3 AS stage, j.seq AS pos
FROM sq_with_place j
WHERE j.over_by IS NOT NULL
ORDER BY stage, pos

-- claim_counts(state, was, priority, items, turn, seq)
-- Counts of the rows of a claim, and the order's pointer after them.
SELECT
  k.state, k.was, k.priority, count(*) AS items,
  max(k.turn) AS turn, max(CASE WHEN k.turn = k.top THEN k.seq END) AS seq
FROM (
  SELECT c.*, max(c.turn) OVER (PARTITION BY c.state, c.was, c.priority) AS top FROM sq_claim_rows c
) k
GROUP BY k.state, k.was, k.priority
