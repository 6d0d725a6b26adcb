-- Items that a reader has open.
-- Uses: claim, open_items.
-- Tables: asked, sized, states.

-- backlog(items, bytes, claimed, oldest instant, first_step)
-- Counts of a reader's open items.
SELECT
  count(*) AS items,
  coalesce(sum(z.bytes), 0) AS bytes,
  count(CASE WHEN t.state = 'claimed' THEN 1 END) AS claimed,
  min(CASE WHEN t.state = 'ready' THEN greatest(z.enqueued_at, t.available_at) END) AS oldest,
  min(z.step) AS first_step
FROM sq_with_turn t
JOIN sq_sized z ON t.seq = z.seq

-- backlog_bytes(bytes)
-- The bytes of items.
SELECT coalesce(sum(z.bytes), 0) AS bytes FROM sq_sized z

-- dropped_count(items)
-- How many items were dropped because a reader was full, or too far behind.
SELECT count(*) AS items
FROM sq_states s
WHERE s.kind = 'item' AND s.state = 'cancelled' AND s.error LIKE 'dropped: the reader is %'

-- next_times(held_until instant, held_later instant, ending, delayed, paused, follows, due instant, ends_at instant)
-- When time alone lets an item run: the end of the first lease, of any and of those that are not over, and the
-- first delay or pause of a key. The next claim ends the `ending` ones, whose lease is over. What follows an
-- item that has begun waits for that. `ends_at` is the first deadline of one that waits.
-- rule: next event
SELECT
  nullif(
    min(CASE WHEN j.state = 'claimed' THEN greatest($freed(j.lease_expires_at, a), j.kept_until) END),
    9223372036854775807
  ) AS held_until,
  nullif(
    min(CASE WHEN j.state = 'claimed' AND ($freed(j.lease_expires_at, a) > a.now OR j.kept_until > a.now)
      THEN greatest($freed(j.lease_expires_at, a), j.kept_until) END),
    9223372036854775807
  ) AS held_later,
  count(CASE WHEN j.state = 'claimed' AND j.over_by IS NOT NULL THEN 1 END) AS ending,
  count(CASE WHEN j.state = 'ready' AND j.follows IS NULL AND j.available_at > a.now
    AND NOT coalesce(j.kept_until > a.now, false) THEN 1 END) AS delayed,
  count(CASE WHEN j.state = 'ready' AND j.kept_until > a.now THEN 1 END) AS paused,
  count(CASE WHEN j.follows IS NOT NULL AND NOT coalesce(j.kept_until > a.now, false) THEN 1 END) AS follows,
  nullif(
    min(CASE WHEN j.state = 'ready' AND j.follows IS NULL AND (j.available_at > a.now OR j.kept_until > a.now)
      THEN greatest(j.available_at, j.kept_until) END),
    9223372036854775807
  ) AS due,
  min(CASE WHEN j.state = 'ready' AND j.ends_at > a.now THEN j.ends_at END) AS ends_at
FROM sq_with_place j
CROSS JOIN sq_asked a

-- oldest_items(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq)
-- The items that have waited longest.
SELECT t.* FROM sq_with_turn t WHERE t.state = 'ready' ORDER BY t.seq LIMIT $limit

-- oldest_items_by_bytes(seq, gen, priority, round, cost, max_attempts, fair_key, group_key, flow_keys, units, chain, available_at instant, expires_at instant, enqueued_at instant, state, attempts, losses, deferrals, lease, lease_expires_at instant, step, tag, inc, v, s, checkpoint_turn, checkpoint_seq, passed)
-- The items that have waited longest, up to a number of bytes.
SELECT s.*
FROM (
  SELECT t.*, sum(z.bytes) OVER (ORDER BY t.seq) - z.bytes AS passed
  FROM sq_with_turn t
  JOIN sq_sized z ON t.seq = z.seq
  WHERE t.state = 'ready'
) s
WHERE s.passed < $limit
