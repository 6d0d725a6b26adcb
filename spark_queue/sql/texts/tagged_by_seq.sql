-- Without a fair key there is one line, and the tag is the seq.
-- rule: one line without keys
SELECT q.*, coalesce(q.round, q.tag) AS stored
FROM (SELECT d.*, cast(d.seq AS double) AS tag FROM sq_lowered d) q
