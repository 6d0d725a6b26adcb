-- The last tag that each line has given out now.
SELECT s.priority, s.fair_key, s.start_tag + s.total AS round FROM sq_spans s
