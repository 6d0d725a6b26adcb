-- The rows of a batch that are taken.
SELECT b.* FROM sq_batch b WHERE NOT EXISTS (SELECT 1 FROM sq_refused r WHERE r.seq = b.seq)
