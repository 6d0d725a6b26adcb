-- Without a fair key there is one line, and the tag is the seq.
-- rule: one line without keys
SELECT d.*, coalesce(d.round, cast(d.seq AS double)) AS stored FROM sq_lowered d
