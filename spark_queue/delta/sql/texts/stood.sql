-- Items and refused rows, as statistics count them.
SELECT s.fair_key, s.state, s.enqueued_at, s.first_claimed_at FROM sq_status s
UNION ALL
SELECT r.fair_key, 'refused' AS state, r.enqueued_at, NULL FROM sq_rejected r
