-- The leases that ran out.
-- rule again: place at an instant
SELECT DISTINCT l.lease
FROM sq_latest l
CROSS JOIN sq_asked a
WHERE l.state = 'claimed' AND l.lease_expires_at <= a.now
