-- waits_longest(seq, reason, since instant)
-- The ready item that has waited longest, and why it is not running.
SELECT r.seq, r.reason, r.waits_since AS since
FROM sq_reasons r
CROSS JOIN sq_asked a
WHERE r.state = 'ready' AND r.waits_since <= a.now
ORDER BY r.waits_since, r.seq
LIMIT 1
