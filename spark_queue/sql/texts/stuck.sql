-- stuck(seq, worker_id, since instant, given_back, lease)
-- Open items that were given back untouched ten times and more, and those that somebody holds for three
-- of the leases that he asked for, and longer. Those that are held come first, the longest first.
WITH granted AS (
  SELECT
    seq,
    step,
    m.lease_expires_at - m.at AS lease_us,
    count(*) OVER (PARTITION BY seq) AS grants
  FROM sq_transitions m
  WHERE granted
),
followed AS (
  SELECT
    m.seq,
    m.state,
    m.attempts,
    m.losses,
    lag(m.state) OVER item AS state_before,
    lag(m.attempts) OVER item AS attempts_before,
    lag(m.losses) OVER item AS losses_before
  FROM sq_transitions m
  JOIN (SELECT DISTINCT seq FROM granted WHERE grants >= 10) g ON g.seq = m.seq
  WINDOW item AS (PARTITION BY m.seq ORDER BY m.step)
),
given_back AS (
  SELECT seq, count(*) AS times
  FROM followed
  WHERE
    state = 'ready'
    AND state_before = 'claimed'
    AND attempts = attempts_before
    AND losses = losses_before
  GROUP BY seq
  HAVING count(*) >= 10
),
held AS (
  SELECT r.seq, g.lease_us / 1e6 AS lease
  FROM sq_reasons r
  JOIN granted g ON g.seq = r.seq AND g.step = r.lease
  CROSS JOIN sq_asked a
  WHERE
    r.reason = 'leased' AND a.now - r.claimed_at >= 3 * g.lease_us
)
SELECT
  r.seq,
  r.worker_id,
  r.claimed_at AS since,
  coalesce(b.times, 0) AS given_back,
  h.lease
FROM sq_reasons r
LEFT JOIN given_back b ON b.seq = r.seq
LEFT JOIN held h ON h.seq = r.seq
WHERE b.times IS NOT NULL OR h.lease IS NOT NULL
ORDER BY h.lease IS NULL, r.claimed_at, given_back DESC, r.seq
LIMIT 100
