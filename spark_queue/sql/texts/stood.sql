-- Items and refused rows, as statistics count them.
SELECT s.fair_key, s.state, s.waits_since, s.waited, r.seq AS successor
FROM sq_status s
LEFT JOIN sq_successors r ON s.seq = r.origin
UNION ALL
SELECT j.fair_key, 'refused', j.enqueued_at, NULL, NULL FROM sq_rejected j
