-- Panels of a report: counts, speeds and forecasts.
-- Uses: log, status, history, standing.
-- Tables: asked.

-- lasting(seq, fair_key, state, enqueued_at instant, finished_at instant)
-- The items but those that an undo brought back as another one, which has the time of the first enqueue:
-- that counts in their place, as if they had never been over.
SELECT s.seq, s.fair_key, s.state, s.enqueued_at, s.finished_at
FROM sq_status s
LEFT JOIN (SELECT origin, enqueued_at FROM sq_status WHERE origin IS NOT NULL) back
  ON back.origin = s.seq AND back.enqueued_at = s.enqueued_at
WHERE back.origin IS NULL

-- depth(moment instant, items)
-- How many items were open, every half hour of the last day. What was made ready again after its end
-- counts as if it had never been over.
WITH edges AS (
  SELECT 8 * a.n + b.n AS edge
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS b(n)
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items FROM sq_lasting
  UNION ALL
  SELECT finished_at AS moment, -1 AS items FROM sq_lasting WHERE finished_at IS NOT NULL
),
placed AS (
  SELECT
    greatest(0e0, ceil(47 - (a.now - e.moment) / 1.8e9)) AS edge,
    e.items
  FROM events e
  CROSS JOIN sq_asked a
),
summed AS (
  SELECT edge, sum(items) AS items FROM placed GROUP BY edge
)
SELECT
  max(a.now) - (47 - e.edge) * cast(1800000000 AS bigint) AS moment,
  cast(coalesce(sum(s.items), 0) AS bigint) AS items
FROM edges e
CROSS JOIN sq_asked a
LEFT JOIN summed s ON s.edge <= e.edge
GROUP BY e.edge
ORDER BY moment

-- flow(moment instant, entered, done, failed, items)
-- The window in sixty parts, of a minute each where it is an hour: items that entered, that were
-- acked, attempts that failed, and how many items were open at its end. What was made ready again after
-- its end counts as if it had never been over, as in the depth of a day.
WITH parts AS (
  SELECT 10 * a.n + b.n AS part
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b(n)
),
asked AS (
  SELECT
    since,
    (now - since) / 60e0 AS part_us
  FROM sq_asked
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS done, 0 AS failed FROM sq_lasting
  UNION ALL
  SELECT finished_at, -1, 0, CASE WHEN state = 'acked' THEN 1 ELSE 0 END, 0
  FROM sq_lasting
  WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT m.at, 0, 0, 0, 1 FROM sq_transitions m WHERE m.failed
),
placed AS (
  SELECT
    cast(
      greatest(-1e0, least(59e0, ceil((e.moment - a.since) / a.part_us) - 1)) AS bigint
    ) AS part,
    e.items,
    e.entered,
    e.done,
    e.failed
  FROM events e
  CROSS JOIN asked a
),
summed AS (
  SELECT
    part,
    sum(items) AS items,
    sum(entered) AS entered,
    sum(done) AS done,
    sum(failed) AS failed
  FROM placed
  GROUP BY part
)
SELECT
  cast(max(a.since + p.part * a.part_us) AS bigint) AS moment,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.entered END), 0) AS bigint) AS entered,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.done END), 0) AS bigint) AS done,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.failed END), 0) AS bigint) AS failed,
  cast(coalesce(sum(s.items), 0) AS bigint) AS items
FROM parts p
CROSS JOIN asked a
LEFT JOIN summed s ON s.part <= p.part
GROUP BY p.part
ORDER BY moment

-- forecast(trend, time_left, time_left_least, time_left_most, acked_per_second_now, enqueued_per_second_now)
-- Whether what is open becomes less, and in how many seconds it is done, if it goes on as of late: in the
-- last ten minutes, or in the window where fewer than thirty items ended in these; since there was most.
-- `least` and `most` are by parts of that time, a fifth and more; `most` is null where nothing went in the
-- newest. Rates of now are those of five minutes.
WITH edges AS (
  SELECT e.seconds
  FROM (
    VALUES (20), (40), (60), (80), (120), (180), (240), (300), (460), (600), (900), (1200), (1800), (2700),
      (3600), (7200), (14400), (28800), (43200), (86400)
  ) AS e(seconds)
),
asked AS (
  SELECT now, greatest(600e0, (now - since) / 1e6) AS seconds FROM sq_asked
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS ended, 0 AS acked FROM sq_lasting
  UNION ALL
  SELECT finished_at, -1, 0, 1, CASE WHEN state = 'acked' THEN 1 ELSE 0 END
  FROM sq_lasting
  WHERE finished_at IS NOT NULL
),
-- By how many seconds before now they happened: in up to 20, in up to 40, and so on.
parts AS (
  SELECT
    20 * cast(greatest(1e0, ceil((a.now - e.moment) / 2e7)) AS bigint) AS seconds,
    sum(e.items) AS items,
    sum(e.entered) AS entered,
    sum(e.ended) AS ended,
    sum(e.acked) AS acked
  FROM events e
  CROSS JOIN asked a
  WHERE e.moment > a.now - a.seconds * 1e6
  GROUP BY 1
),
opened AS (
  SELECT count(CASE WHEN finished_at IS NULL THEN 1 END) AS items, min(enqueued_at) AS first_at
  FROM sq_lasting
),
falls AS (
  SELECT
    g.seconds,
    cast(-coalesce(sum(p.items), 0) AS bigint) AS fall,
    cast(coalesce(sum(p.ended), 0) AS bigint) AS ended
  FROM edges g
  JOIN asked a ON g.seconds <= a.seconds
  LEFT JOIN parts p ON p.seconds <= g.seconds
  GROUP BY g.seconds
),
span AS (
  SELECT
    CASE WHEN max(CASE WHEN f.seconds <= 600 THEN f.ended END) >= 30 THEN 600 ELSE max(f.seconds) END
      AS seconds,
    max(CASE WHEN f.seconds <= 600 THEN f.ended END) = 0 AND max(f.ended) >= 30 AS is_over
  FROM falls f
),
seen AS (
  SELECT f.seconds, f.fall, s.seconds AS span, s.is_over
  FROM falls f
  JOIN span s ON f.seconds <= s.seconds
),
peaks AS (
  SELECT max(fall) AS fall, min(CASE WHEN seconds <= 600 THEN fall END) AS rise FROM seen
),
-- Since there was most; where it was so for a while, half of the time counts.
peak AS (
  SELECT
    greatest(min(s.seconds), least(max(s.span) / 2e0, max(s.seconds))) AS seconds,
    max(s.span) AS span,
    max(CASE WHEN s.is_over THEN 0 ELSE p.fall END) AS fall,
    max(p.rise) AS rise
  FROM peaks p
  JOIN seen s ON s.fall = p.fall
),
estimates AS (
  SELECT
    count(CASE WHEN s.fall <= 0 AND s.seconds <= p.seconds THEN 1 END) AS still,
    min(CASE WHEN s.fall > 0 THEN s.seconds / cast(s.fall AS double) END) AS least,
    max(CASE WHEN s.fall > 0 THEN s.seconds / cast(s.fall AS double) END) AS most
  FROM seen s
  JOIN peak p ON s.seconds * 5 >= p.span OR s.seconds = p.seconds
),
lately AS (
  SELECT
    coalesce(sum(p.acked), 0) / max(t.seconds) AS acked,
    coalesce(sum(p.entered), 0) / max(t.seconds) AS entered
  FROM (
    SELECT least(3e2, (a.now - o.first_at) / 1e6) AS seconds FROM opened o CROSS JOIN asked a
  ) t
  LEFT JOIN parts p ON p.seconds <= 300
  WHERE t.seconds > 0
)
SELECT
  CASE
    WHEN o.items = 0 THEN 'done'
    WHEN k.fall > 0 THEN 'falls'
    WHEN k.rise < 0 THEN 'rises'
    ELSE 'stays'
  END AS trend,
  CASE WHEN o.items = 0 THEN 0e0 WHEN k.fall > 0 THEN o.items * k.seconds / k.fall END AS time_left,
  CASE
    WHEN o.items > 0 AND k.fall > 0 THEN o.items * least(e.least, k.seconds / cast(k.fall AS double))
  END AS time_left_least,
  CASE
    WHEN o.items > 0 AND k.fall > 0 AND e.still = 0
      THEN o.items * greatest(e.most, k.seconds / cast(k.fall AS double))
  END AS time_left_most,
  l.acked AS acked_per_second_now,
  l.entered AS enqueued_per_second_now
FROM opened o
CROSS JOIN peak k
CROSS JOIN estimates e
LEFT JOIN lately l ON true

-- claim_rates(per_second, least, most, work)
-- How many items are claimed a second: in the last ten minutes, or in the window where fewer than thirty were
-- in these. `least` and `most` are by parts of that time, a fifth and a half of it. `work` is the seconds from a
-- claim to its settle, of half of the items.
WITH asked AS (
  SELECT now, greatest(6e8, now - since) AS lasts FROM sq_asked
),
claims AS (
  SELECT (a.now - t.at) / 1e6 AS ago
  FROM sq_transitions t
  CROSS JOIN asked a
  WHERE t.granted AND t.at > a.now - a.lasts
),
span AS (
  SELECT CASE WHEN count(CASE WHEN c.ago <= 600 THEN 1 END) >= 30 THEN 600e0 ELSE max(a.lasts) / 1e6 END AS seconds
  FROM asked a
  LEFT JOIN claims c ON true
),
first_claim AS (
  SELECT greatest(1e0, least(s.seconds, (max(a.now) - min(t.at)) / 1e6)) AS seconds
  FROM span s
  CROSS JOIN asked a
  LEFT JOIN sq_transitions t ON t.granted
  GROUP BY s.seconds
),
speeds AS (
  SELECT f.seconds * p.part AS seconds, count(c.ago) / (f.seconds * p.part) AS per_second, p.part
  FROM first_claim f
  CROSS JOIN (VALUES (2e-1), (5e-1), (1e0)) AS p(part)
  LEFT JOIN claims c ON c.ago <= f.seconds * p.part
  GROUP BY f.seconds, p.part
)
SELECT
  coalesce(max(CASE WHEN r.part = 1 THEN r.per_second END), 0e0) AS per_second,
  coalesce(min(r.per_second), 0e0) AS least,
  coalesce(max(r.per_second), 0e0) AS most,
  (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds) FROM sq_service_times) AS work
FROM speeds r

-- overview(runnable, delayed, held_by_group, over_a_key_limit, keys_at_a_limit, over_a_rate, of_paused_keys, over_a_limit, paused_items, past_their_time, claimed, late, acked, dead, dead_in_window, dead_since instant, expired, cancelled, redriven, oldest_age, runnable_since instant, last_claim_at instant, last_ack_at instant, enqueued_in_window, done_in_window, enqueued_per_second, done_per_second, seconds, enqueued_per_second_now, done_per_second_now, trend, time_left, time_left_least, time_left_most)
-- How much is where, what comes and goes, and how long what is open will take (`sq_forecast`). What was
-- enqueued again after its end is `redriven`, and neither dead, expired nor cancelled. The speeds are of the
-- `seconds` of the window in which there was an item.
WITH waiting AS (
  SELECT
    count(CASE WHEN reason = 'runnable' AND state = 'ready' THEN 1 END) AS runnable,
    count(CASE WHEN reason = 'delayed' THEN 1 END) AS delayed,
    count(CASE WHEN reason = 'held by group' AND state = 'ready' THEN 1 END) AS held_by_group,
    count(CASE WHEN reason = 'key limit' THEN 1 END) AS over_a_key_limit,
    count(DISTINCT CASE WHEN reason = 'key limit' THEN concat(cast(full_limit AS string), ' ', full_key) END)
      AS keys_at_a_limit,
    count(CASE WHEN reason IN ('key rate', 'rate') AND state = 'ready' THEN 1 END) AS over_a_rate,
    count(CASE WHEN reason = 'key paused' AND state = 'ready' THEN 1 END) AS of_paused_keys,
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
  w.over_a_key_limit, w.keys_at_a_limit, w.over_a_rate, w.of_paused_keys,
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

-- behind(items, open_items, oldest_age, first_step)
-- How far the reader is behind: what it is not done with, what of that is in its hands, and the step
-- of the item log from which on there is any.
SELECT
  count(*) AS items,
  count(CASE WHEN s.state = 'claimed' THEN 1 END) AS open_items,
  max(CASE WHEN s.state = 'ready' AND s.waits_since <= a.now THEN a.now - s.waits_since END) / 1e6
    AS oldest_age,
  min(s.step) AS first_step
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state IN ('ready', 'claimed')
