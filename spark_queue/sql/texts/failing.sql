-- Items that fail, and are retried unless that was the last attempt.
-- rule: delay of a retry
-- rule again: outcome of an item
SELECT t.told_seq AS seq, t.attempts + 1 AS attempts
FROM sq_limited t
WHERE t.is_held AND t.outcome = 'nack' AND (t.most_attempts IS NULL OR t.attempts + 1 < t.most_attempts)
