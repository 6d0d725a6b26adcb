-- The same where all are.
SELECT b.* FROM sq_batch b
