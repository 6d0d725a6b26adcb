-- The newest row of each item that was touched. (seq, step) is unique. A join back keeps nulls,
-- which max_by skips in one engine and keeps in the other.
-- rule: newest row of an item
SELECT s.*, coalesce(r.until, s.lease_expires_at) AS held_until
FROM sq_states s
JOIN (
  SELECT seq, max(step) AS step FROM sq_states WHERE kind IN ('item', 'open') GROUP BY seq
) n ON s.seq = n.seq AND s.step = n.step
LEFT JOIN sq_renewals r ON s.lease = r.lease
WHERE s.kind IN ('item', 'open')
