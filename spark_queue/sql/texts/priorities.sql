-- The priorities of a batch.
SELECT DISTINCT b.priority FROM sq_batch b
