-- The members that are still in the log.
SELECT m.* FROM sq_members m WHERE EXISTS (SELECT 1 FROM sq_there t WHERE t.seq = m.seq)
