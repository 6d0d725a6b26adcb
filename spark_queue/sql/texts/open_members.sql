-- The members with which some reader is not done, by their groups.
SELECT m.* FROM sq_members m WHERE EXISTS (SELECT 1 FROM sq_open o WHERE o.seq = m.seq)
