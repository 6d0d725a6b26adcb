-- The same where no group raises any.
SELECT t.*, t.stored AS place FROM sq_tagged t
