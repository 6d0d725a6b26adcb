-- Panels of a report: workers, and groups that wait for a member.
-- Uses: history, standing.
-- Tables: asked.

-- workers(worker_id, items, leases, since instant, until instant, late, lost, claimed, last_claim_at instant, acked, work_p50, work_p95, workers)
-- Who holds items now, or got or lost some in the window. `late` are items whose lease ran out.
-- `lost` counts those that were taken from a holder, or given up for it, in the window. How
-- long it works on an item is by those that it settled there.
WITH held AS (
  SELECT
    worker_id,
    count(*) AS items,
    count(DISTINCT lease) AS leases,
    min(claimed_at) AS since,
    min($freed(lease_expires_at, a)) AS until,
    count(CASE WHEN is_lapsed THEN 1 END) AS late
  FROM sq_reasons
  CROSS JOIN sq_asked a
  WHERE state = 'claimed'
  GROUP BY worker_id
),
got AS (
  SELECT m.worker_id, count(*) AS claimed, max(m.at) AS last_at
  FROM sq_transitions m
  CROSS JOIN sq_asked a
  WHERE m.granted AND m.at > a.since
  GROUP BY m.worker_id
),
followed AS (
  SELECT
    m.at,
    m.losses,
    lag(m.losses) OVER item AS losses_before,
    lag(m.worker_id) OVER item AS worker_before
  FROM sq_transitions m
  JOIN (SELECT DISTINCT seq FROM sq_transitions WHERE losses > 0) l ON l.seq = m.seq
  WINDOW item AS (PARTITION BY m.seq ORDER BY m.step)
),
lost AS (
  SELECT f.worker_before AS worker_id, count(*) AS lost
  FROM followed f
  CROSS JOIN sq_asked a
  WHERE f.losses > f.losses_before AND f.at > a.since
  GROUP BY f.worker_before
),
worked AS (
  SELECT
    w.worker_id,
    count(CASE WHEN w.acked THEN 1 END) AS acked,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY w.seconds) AS work_p50,
    percentile_disc(0.95) WITHIN GROUP (ORDER BY w.seconds) AS work_p95
  FROM sq_service_times w
  GROUP BY w.worker_id
),
named AS (
  SELECT worker_id FROM held
  UNION
  SELECT worker_id FROM got
  UNION
  SELECT worker_id FROM lost
)
SELECT
  n.worker_id,
  coalesce(h.items, 0) AS items,
  coalesce(h.leases, 0) AS leases,
  h.since,
  h.until,
  coalesce(h.late, 0) AS late,
  coalesce(l.lost, 0) AS lost,
  coalesce(g.claimed, 0) AS claimed,
  g.last_at AS last_claim_at,
  coalesce(w.acked, 0) AS acked,
  w.work_p50,
  w.work_p95,
  count(*) OVER () AS workers
FROM named n
LEFT JOIN held h ON h.worker_id IS NOT DISTINCT FROM n.worker_id
LEFT JOIN got g ON g.worker_id IS NOT DISTINCT FROM n.worker_id
LEFT JOIN lost l ON l.worker_id IS NOT DISTINCT FROM n.worker_id
LEFT JOIN worked w ON w.worker_id IS NOT DISTINCT FROM n.worker_id
ORDER BY late DESC, lost DESC, items DESC, n.worker_id
LIMIT 100

-- groups(group_key, head, why, since instant, until instant, behind, oldest_age, attempts, losses, worker_id, error, heads)
-- The groups that wait for one of their own: which item is in the way and why, since when and until
-- when, and how many are behind it. Its error is that of its last failure; a loss has none.
WITH behind AS (
  SELECT group_key, held_by, count(*) AS behind, min(waits_since) AS oldest
  FROM sq_reasons
  WHERE reason = 'held by group' AND held_by IS NOT NULL
  GROUP BY group_key, held_by
),
failed AS (
  SELECT m.seq, max_by(m.error, m.step) AS error
  FROM behind b
  JOIN sq_transitions m ON m.seq = b.held_by AND m.failed
  JOIN sq_transitions g ON g.seq = m.seq AND g.step = m.lease AND g.attempts < m.attempts
  GROUP BY m.seq
)
SELECT
  b.group_key,
  b.held_by AS head,
  h.reason AS why,
  CASE WHEN h.state = 'claimed' THEN h.claimed_at ELSE h.moved_at END AS since,
  CASE WHEN h.state = 'claimed' THEN $freed(h.lease_expires_at, a) ELSE h.until END AS until,
  b.behind,
  greatest(0e0, (a.now - b.oldest) / 1e6) AS oldest_age,
  h.attempts,
  h.losses,
  h.worker_id,
  f.error,
  count(*) OVER () AS heads
FROM behind b
JOIN sq_reasons h ON h.seq = b.held_by
LEFT JOIN failed f ON f.seq = h.seq
CROSS JOIN sq_asked a
ORDER BY b.behind DESC, b.held_by
LIMIT 100
