-- The leases that ran out.
-- rule again: place at an instant
SELECT DISTINCT l.lease
FROM sq_latest l
CROSS JOIN sq_asked a
WHERE l.state = 'claimed' AND l.held_until <= a.now
