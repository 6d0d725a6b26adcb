-- About the same, where rows are too many to be computed first.
SELECT s.priority, s.fair_key, s.start_tag + s.total AS round FROM sq_spans s
