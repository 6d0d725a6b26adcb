-- Figures of a queue, and the list of its items.
-- Uses: log, status.
-- Tables: asked, found, keys, rejected.

-- counted_rows(fair_key, state, waits_since instant, waited, successor)
-- Items and refused rows, as statistics count them.
SELECT s.fair_key, s.state, s.waits_since, s.waited, r.seq AS successor
FROM sq_status s
LEFT JOIN sq_successors r ON s.seq = r.origin
UNION ALL
SELECT j.fair_key, 'refused', j.enqueued_at, NULL, NULL FROM sq_rejected j

-- state_counts(state, items, redriven, oldest instant)
-- How many items are in each state, how many of them were redriven, and since when the first waits.
SELECT f.state, count(*) AS items, count(f.successor) AS redriven, min(f.waits_since) AS oldest
FROM sq_counted_rows f
GROUP BY f.state
ORDER BY f.state

-- key_stats(fair_key, ready, claimed, acked, dead, expired, cancelled, redriven, refused, wait_p50, wait_p95, wait_max, oldest_age)
-- Items of each fair key by state, how long they waited, and the age of the oldest. A percentile of
-- waits is the wait at that place among all of the key.
SELECT
  w.fair_key,
  count(CASE WHEN w.state = 'ready' THEN 1 END) AS ready,
  count(CASE WHEN w.state = 'claimed' THEN 1 END) AS claimed,
  count(CASE WHEN w.state = 'acked' THEN 1 END) AS acked,
  count(CASE WHEN w.state = 'dead' THEN 1 END) AS dead,
  count(CASE WHEN w.state = 'expired' THEN 1 END) AS expired,
  count(CASE WHEN w.state = 'cancelled' THEN 1 END) AS cancelled,
  count(w.successor) AS redriven,
  count(CASE WHEN w.state = 'refused' THEN 1 END) AS refused,
  max(CASE WHEN w.place = ceil(w.waits * 5e-1) THEN w.wait END) AS wait_p50,
  max(CASE WHEN w.place = ceil(w.waits * 95e-2) THEN w.wait END) AS wait_p95,
  max(w.wait) AS wait_max,
  max(w.age) AS oldest_age
FROM (
  SELECT
    s.*,
    count(s.wait) OVER (PARTITION BY s.fair_key) AS waits,
    row_number() OVER (PARTITION BY s.fair_key ORDER BY s.wait ASC NULLS LAST) AS place
  FROM (
    SELECT
      f.fair_key, f.state, f.successor, f.waited / 1e6 AS wait,
      CASE WHEN f.state = 'ready' AND f.waits_since <= a.now THEN (a.now - f.waits_since) / 1e6 END
        AS age
    FROM sq_counted_rows f
    CROSS JOIN sq_asked a
  ) s
) w
GROUP BY w.fair_key
ORDER BY w.fair_key

-- worst_keys(fair_key, ready, claimed, acked, dead, expired, cancelled, redriven, refused, wait_p50, wait_p95, wait_max, oldest_age)
-- Keys with dead letters, most first; then those whose items have waited longest.
SELECT k.*
FROM sq_keys k
ORDER BY k.dead DESC, k.oldest_age DESC NULLS LAST, k.fair_key ASC NULLS LAST
LIMIT $limit

-- items_in_list(seq, state, redriven, lapsed, retrying, delayed, place)
-- Items with notes and their rank in a list: first what failed, then what may fail, what runs, what
-- ended.
SELECT
  n.*,
  CASE
    WHEN n.redriven THEN 7
    WHEN n.state = 'dead' THEN 0
    WHEN n.state = 'expired' THEN 1
    WHEN n.lapsed THEN 2
    WHEN n.retrying THEN 3
    WHEN n.state = 'claimed' THEN 4
    WHEN n.state = 'ready' THEN 5
    WHEN n.state = 'cancelled' THEN 6
    ELSE 7
  END AS place
FROM (
  SELECT
    f.seq, f.state, f.state <> 'acked' AND r.seq IS NOT NULL AS redriven,
    f.state = 'claimed' AND $freed(f.lease_expires_at, a) <= a.now AS lapsed,
    f.state = 'ready' AND f.attempts + f.losses + f.deferrals > 0 AS retrying,
    f.state = 'ready' AND f.attempts + f.losses + f.deferrals = 0 AND f.available_at > a.now AS delayed
  FROM sq_found f
  LEFT JOIN sq_successors r ON f.seq = r.origin
  CROSS JOIN sq_asked a
) n

-- state_notes(state, items, lapsed, retrying, delayed, redriven)
-- How many items are in each state, and how many have each note.
SELECT
  n.state, count(*) AS items,
  count(CASE WHEN n.lapsed THEN 1 END) AS lapsed,
  count(CASE WHEN n.retrying THEN 1 END) AS retrying,
  count(CASE WHEN n.delayed THEN 1 END) AS delayed,
  count(CASE WHEN n.redriven THEN 1 END) AS redriven
FROM sq_items_in_list n
GROUP BY n.state
ORDER BY n.state

-- first_in_list(seq)
-- The items that come first in a list.
SELECT n.seq FROM sq_items_in_list n ORDER BY n.place, n.seq LIMIT $limit
