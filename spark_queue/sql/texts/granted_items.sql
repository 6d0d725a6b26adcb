-- The items of the newest claim that was granted under an id: whether it holds them, and whether they
-- were next made ready without a worker id, as by a clone.
SELECT
  g.seq, g.step, g.at, g.lease_expires_at,
  coalesce(l.state = 'claimed' AND l.lease = g.step, false) AS is_held,
  coalesce(b.state = 'ready' AND b.lease IS NULL AND b.error IS NULL, false) AS is_back
FROM sq_states g
JOIN sq_lease_of_id c ON g.step = c.lease AND g.lease = c.lease
JOIN sq_latest l ON g.seq = l.seq
LEFT JOIN (
  SELECT
    s.seq, s.state, s.lease, s.error,
    row_number() OVER (PARTITION BY s.seq ORDER BY s.step) AS place
  FROM sq_states s
  JOIN sq_lease_of_id c ON s.step > c.lease
  WHERE s.kind = 'item' AND NOT coalesce(s.state = 'claimed' AND s.lease = c.lease, false)
) b ON g.seq = b.seq AND b.place = 1
WHERE g.kind = 'item' AND g.state = 'claimed'
