-- Items of which there is more to say, and the place of each in a list: what went wrong, what may, what
-- goes on, what is over.
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
    f.state = 'claimed' AND f.lease_expires_at <= a.now AS lapsed,
    f.state = 'ready' AND f.attempts + f.losses > 0 AS retrying,
    f.state = 'ready' AND f.attempts + f.losses = 0 AND f.available_at > a.now AS delayed
  FROM sq_found f
  LEFT JOIN sq_successors r ON f.seq = r.origin
  CROSS JOIN sq_asked a
) n
