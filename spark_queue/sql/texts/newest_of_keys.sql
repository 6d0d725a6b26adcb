-- The newest item of each key of the batch.
-- rule: one item of a key
SELECT k.*
FROM sq_met k
JOIN (SELECT i.dedup_key, max(i.seq) AS seq FROM sq_met i GROUP BY i.dedup_key) n ON k.seq = n.seq
