-- How often items have failed that are retried.
SELECT DISTINCT f.attempts FROM sq_failing f ORDER BY f.attempts
