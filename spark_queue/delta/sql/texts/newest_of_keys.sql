-- The newest item of each key of the batch.
-- rule: one item of a key
SELECT k.*
FROM sq_keyed k
JOIN (
  SELECT i.dedup_key, max(i.seq) AS seq
  FROM sq_keyed i
  JOIN (SELECT DISTINCT dedup_key FROM sq_batch) b ON i.dedup_key = b.dedup_key
  GROUP BY i.dedup_key
) n ON k.seq = n.seq
