-- overview(runnable, delayed, held_by_group, over_a_limit, paused_items, past_their_time, claimed, late, acked, dead, dead_in_window, dead_since instant, expired, cancelled, redriven, oldest_age, runnable_since instant, last_claim_at instant, last_ack_at instant, enqueued_in_window, done_in_window, enqueued_per_second, done_per_second, seconds, enqueued_per_second_now, done_per_second_now, trend, time_left, time_left_least, time_left_most)
-- How much is where, what comes and goes, and how long what is open will take (`sq_forecast`). What was
-- enqueued again after its end is `redriven`, and neither dead, expired nor cancelled. The rates are of the
-- `seconds` of the window in which there was an item.
WITH waiting AS (
  SELECT
    count(CASE WHEN reason = 'runnable' AND state = 'ready' THEN 1 END) AS runnable,
    count(CASE WHEN reason = 'delayed' THEN 1 END) AS delayed,
    count(CASE WHEN reason = 'held by group' AND state = 'ready' THEN 1 END) AS held_by_group,
    count(CASE WHEN reason = 'limit' THEN 1 END) AS over_a_limit,
    count(CASE WHEN reason = 'paused' AND state = 'ready' THEN 1 END) AS paused_items,
    count(CASE WHEN reason = 'expired' AND state = 'ready' THEN 1 END) AS past_their_time,
    count(CASE WHEN state = 'claimed' THEN 1 END) AS claimed,
    count(CASE WHEN is_lapsed THEN 1 END) AS late,
    min(CASE WHEN state = 'ready' THEN waits_since END) AS oldest
  FROM sq_reasons
),
flow AS (
  SELECT
    count(CASE WHEN s.state = 'acked' THEN 1 END) AS acked,
    count(CASE WHEN s.state = 'dead' AND r.origin IS NULL THEN 1 END) AS dead,
    count(CASE WHEN s.state = 'dead' AND r.origin IS NULL AND s.finished_at > a.since THEN 1 END)
      AS dead_in_window,
    min(CASE WHEN s.state = 'dead' AND r.origin IS NULL AND s.finished_at > a.since THEN s.finished_at END)
      AS dead_since,
    count(CASE WHEN s.state = 'expired' AND r.origin IS NULL THEN 1 END) AS expired,
    count(CASE WHEN s.state = 'cancelled' AND r.origin IS NULL THEN 1 END) AS cancelled,
    count(CASE WHEN s.state IN ('dead', 'expired', 'cancelled') THEN r.origin END) AS redriven,
    count(CASE WHEN s.finished_at > a.since AND s.state = 'acked' THEN 1 END) AS done,
    max(s.claimed_at) AS last_claim_at,
    max(CASE WHEN s.state = 'acked' THEN s.finished_at END) AS last_ack_at,
    (max(a.now) - greatest(max(a.since), min(s.enqueued_at)))
      / 1e6 AS seconds
  FROM sq_status s
  LEFT JOIN sq_successors r ON r.origin = s.seq
  CROSS JOIN sq_asked a
),
entered AS (
  SELECT count(*) AS items
  FROM sq_lasting l
  CROSS JOIN sq_asked a
  WHERE l.enqueued_at > a.since
)
SELECT
  w.runnable,
  w.delayed,
  w.held_by_group,
  w.over_a_limit,
  w.paused_items,
  w.past_their_time,
  w.claimed,
  w.late,
  f.acked,
  f.dead,
  f.dead_in_window,
  f.dead_since,
  f.expired,
  f.cancelled,
  f.redriven,
  CASE WHEN w.oldest <= a.now THEN (a.now - w.oldest) / 1e6 END AS oldest_age,
  r.since AS runnable_since,
  f.last_claim_at,
  f.last_ack_at,
  n.items AS enqueued_in_window,
  f.done AS done_in_window,
  CASE WHEN f.seconds > 0 THEN n.items / f.seconds END AS enqueued_per_second,
  CASE WHEN f.seconds > 0 THEN f.done / f.seconds END AS done_per_second,
  f.seconds,
  c.enqueued_per_second_now,
  c.acked_per_second_now AS done_per_second_now,
  c.trend,
  c.time_left,
  c.time_left_least,
  c.time_left_most
FROM waiting w
CROSS JOIN flow f
CROSS JOIN entered n
CROSS JOIN sq_forecast c
CROSS JOIN (SELECT min(since) AS since FROM sq_runnable) r
CROSS JOIN sq_asked a
