-- Until when the newest renewal of each lease holds it.
-- rule again: renewal of a lease
SELECT lease, max_by(lease_expires_at, step) AS until
FROM sq_states
WHERE kind = 'renewal'
GROUP BY lease
