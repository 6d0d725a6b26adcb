-- What is leased, in order, where nobody has a slot already.
-- rule: lapsed items of a full queue
SELECT seq, turn, overdue, 1 AS stage, pos FROM sq_first
