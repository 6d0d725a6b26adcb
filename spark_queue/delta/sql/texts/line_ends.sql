-- The last tag that each line has given out now.
SELECT r.lowest AS priority, r.fair_key, max(r.tag) AS round
FROM sq_raised r
WHERE r.round IS NULL
GROUP BY r.lowest, r.fair_key
