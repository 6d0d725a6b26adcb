-- Panel of a report: fair keys.
-- Uses: log, status, history, findings.
-- Tables: asked.

-- tenants(fair_key, ready, claimed, dead, turns, share, wait_p50, wait_p95, wait_max, work_p50, work_p95, oldest_age, failures, starving, idle, keys, idle_keys, idle_dead)
-- The fair keys: turns in the window and the share of all, how long those waited that got their first
-- turn in it, failures in it. Those that starve come first (`sq_starving`); then the slowest and the
-- one that fails most often, then the second of each; the idle ones last, of which nothing is open and
-- nothing happened in the window.
WITH turns AS (
  SELECT
    s.fair_key,
    count(CASE WHEN m.granted THEN 1 END) AS turns,
    count(CASE WHEN m.failed THEN 1 END) AS failures
  FROM sq_transitions m
  JOIN sq_status s ON s.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.at > a.since AND (m.granted OR m.failed)
  GROUP BY s.fair_key
),
waits AS (
  SELECT
    s.fair_key,
    s.waited / 1e6 AS wait
  FROM sq_status s
  CROSS JOIN sq_asked a
  WHERE s.first_claimed_at > a.since
),
waited AS (
  SELECT
    fair_key,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY wait) AS wait_p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY wait) AS wait_p95,
    max(wait) AS wait_max
  FROM waits
  GROUP BY fair_key
),
worked AS (
  SELECT
    s.fair_key,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY w.seconds) AS work_p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY w.seconds) AS work_p95
  FROM sq_service_times w
  JOIN sq_status s ON s.seq = w.seq
  GROUP BY s.fair_key
),
standing AS (
  SELECT
    s.fair_key,
    count(CASE WHEN s.state = 'ready' THEN 1 END) AS ready,
    count(CASE WHEN s.state = 'claimed' THEN 1 END) AS claimed,
    count(CASE WHEN s.state = 'dead' AND r.origin IS NULL THEN 1 END) AS dead,
    max(CASE WHEN s.state = 'ready' AND s.waits_since <= a.now THEN a.now - s.waits_since END) / 1e6
      AS oldest_age
  FROM sq_status s
  LEFT JOIN sq_successors r ON r.origin = s.seq
  CROSS JOIN sq_asked a
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns FROM turns
),
joined AS (
  SELECT
    s.fair_key,
    s.ready,
    s.claimed,
    s.dead,
    coalesce(t.turns, 0) AS turns,
    CASE WHEN e.turns > 0 THEN coalesce(t.turns, 0) / cast(e.turns AS double) END AS share,
    w.wait_p50,
    w.wait_p95,
    w.wait_max,
    k.work_p50,
    k.work_p95,
    s.oldest_age,
    coalesce(t.failures, 0) AS failures,
    x.items IS NOT NULL AS starving,
    s.ready + s.claimed + coalesce(t.turns, 0) + coalesce(t.failures, 0) = 0 AS idle
  FROM standing s
  LEFT JOIN turns t ON t.fair_key IS NOT DISTINCT FROM s.fair_key
  LEFT JOIN waited w ON w.fair_key IS NOT DISTINCT FROM s.fair_key
  LEFT JOIN worked k ON k.fair_key IS NOT DISTINCT FROM s.fair_key
  LEFT JOIN sq_starving x ON x.fair_key IS NOT DISTINCT FROM s.fair_key
  CROSS JOIN every_turn e
),
ranked AS (
  SELECT
    *,
    row_number() OVER (
      ORDER BY greatest(coalesce(oldest_age, 0e0), coalesce(wait_p95, 0e0)) DESC, fair_key
    ) AS slow,
    row_number() OVER (ORDER BY failures DESC, dead DESC, fair_key) AS noisy,
    count(*) OVER () AS keys,
    count(CASE WHEN idle THEN 1 END) OVER () AS idle_keys,
    cast(sum(CASE WHEN idle THEN dead ELSE 0 END) OVER () AS bigint) AS idle_dead
  FROM joined
)
SELECT
  fair_key,
  ready,
  claimed,
  dead,
  turns,
  share,
  wait_p50,
  wait_p95,
  wait_max,
  work_p50,
  work_p95,
  oldest_age,
  failures,
  starving,
  idle,
  keys,
  idle_keys,
  idle_dead
FROM ranked
ORDER BY starving DESC, idle, least(slow, noisy), slow
LIMIT 100
