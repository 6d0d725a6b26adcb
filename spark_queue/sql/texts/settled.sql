-- The rows of a settle; of an item that is lost to its holder only the seq counts.
-- rule: loss of a lease, outcome of an item
SELECT
  q.*,
  CASE
    WHEN q.outcome = 'ack' THEN 'acked'
    WHEN q.outcome = 'dead' THEN 'dead'
    WHEN q.outcome = 'nack' AND q.attempts >= q.most_attempts THEN 'dead'
    WHEN q.outcome = 'lose' AND q.losses >= q.max_losses THEN 'dead'
    ELSE 'ready'
  END AS state
FROM (
  SELECT
    t.told_seq AS seq, t.gen, t.lease, coalesce(t.is_held, false) AS is_held, t.outcome,
    t.told_error AS error, t.claim_id, t.worker_id,
    t.attempts + CASE WHEN t.outcome = 'nack' THEN 1 ELSE 0 END AS attempts,
    t.losses + CASE WHEN t.outcome = 'lose' THEN 1 ELSE 0 END AS losses,
    t.most_attempts, a.max_losses, a.now AS at,
    $schedule(t, r: available_at)
  FROM sq_limited t
  CROSS JOIN sq_asked a
  LEFT JOIN sq_retry_times r ON t.told_seq = r.seq
) q
ORDER BY seq
