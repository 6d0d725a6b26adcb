-- The same where no group raises any.
SELECT t.seq, t.lowest, t.fair_key, t.group_key, t.given, t.stored AS place
FROM sq_tagged t
