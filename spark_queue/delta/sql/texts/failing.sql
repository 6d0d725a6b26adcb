-- Items that fail, and are retried unless that was the last attempt.
-- rule: delay of a retry
-- rule again: outcome of an item
SELECT t.told_seq AS seq, t.attempts + 1 AS attempts
FROM sq_told t
CROSS JOIN sq_asked a
WHERE t.is_held AND t.outcome = 'nack' AND (a.max_attempts IS NULL OR t.attempts + 1 < a.max_attempts)
