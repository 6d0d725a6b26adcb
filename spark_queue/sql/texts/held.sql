-- The newest row of each item that a lease was granted for: whether it is still the holder's and
-- meant, and whether he has settled it.
-- rule: holder of a lease
-- rule again: newest row of an item, end of a worker
SELECT
  n.*,
  coalesce(
    n.state = 'claimed' AND n.lease = a.lease AND n.losses >= a.least_losses
      AND (a.is_sure OR coalesce(r.until, n.lease_expires_at) <= a.gone_by OR e.worker_id IS NOT NULL),
    false
  ) AS is_held,
  x.is_settled
FROM sq_states n
JOIN (
  SELECT
    s.seq, max(s.step) AS step,
    bool_or(coalesce(s.lease = b.lease AND s.state <> 'claimed', false)) AS is_settled
  FROM sq_states s
  JOIN (
    SELECT g.seq FROM sq_states g CROSS JOIN sq_asked c WHERE g.step = c.lease AND g.state = 'claimed'
  ) m ON s.seq = m.seq
  CROSS JOIN sq_asked b
  GROUP BY s.seq
) x ON n.seq = x.seq AND n.step = x.step
LEFT JOIN sq_renewals r ON n.lease = r.lease
LEFT JOIN sq_workers_ended e ON n.worker_id = e.worker_id
CROSS JOIN sq_asked a
