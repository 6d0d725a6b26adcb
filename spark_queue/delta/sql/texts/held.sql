-- The newest row of each item that a lease was granted for: whether it is still the holder's, and
-- whether he has settled it.
SELECT
  n.*,
  coalesce(n.state = 'claimed' AND n.lease = a.lease, false) AS is_held,
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
CROSS JOIN sq_asked a
