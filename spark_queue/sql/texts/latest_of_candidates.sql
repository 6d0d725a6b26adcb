-- The same of some items alone.
-- rule: newest row of an item
SELECT s.*, coalesce(r.until, s.lease_expires_at) AS held_until
FROM sq_states s
JOIN (
  SELECT t.seq, max(t.step) AS step
  FROM sq_states t
  WHERE t.kind IN ('item', 'open') AND EXISTS (SELECT 1 FROM sq_candidates c WHERE c.seq = t.seq)
  GROUP BY t.seq
) n ON s.seq = n.seq AND s.step = n.step
LEFT JOIN sq_renewals r ON s.lease = r.lease
WHERE s.kind IN ('item', 'open')
