-- Items whose key a row of the batch has, too.
SELECT k.*
FROM sq_keyed k
WHERE EXISTS (
  SELECT 1 FROM sq_batch b WHERE b.dedup_hash = k.dedup_hash AND b.dedup_key = k.dedup_key
)
