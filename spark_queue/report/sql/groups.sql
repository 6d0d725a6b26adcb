-- The groups that wait for one of their own: which item is in the way and why, since when and until
-- when, and how many are behind it. Its error is that of its last failure; a loss has none.
WITH behind AS (
  SELECT group_key, held_by, count(*) AS behind, min(enqueued_at) AS oldest
  FROM sq_reasons
  WHERE held_by IS NOT NULL
  GROUP BY group_key, held_by
),
failed AS (
  SELECT m.seq, max_by(m.error, m.step) AS error
  FROM behind b
  JOIN sq_moves m ON m.seq = b.held_by AND m.failed
  JOIN sq_moves g ON g.seq = m.seq AND g.step = m.lease AND g.attempts < m.attempts
  GROUP BY m.seq
)
SELECT
  b.group_key,
  b.held_by AS head,
  h.reason AS why,
  CASE WHEN h.state = 'claimed' THEN h.claimed_at ELSE h.moved_at END AS since,
  CASE WHEN h.state = 'claimed' THEN h.lease_expires_at ELSE h.until END AS until,
  b.behind,
  (unix_micros(a.now) - unix_micros(b.oldest)) / 1e6 AS oldest_age,
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
