-- The groups of a batch.
SELECT DISTINCT b.group_key FROM sq_batch b WHERE b.group_key IS NOT NULL
