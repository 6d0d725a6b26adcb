-- An outcome for each of some items.
-- rule: holder of a lease
SELECT o.seq AS told_seq, o.outcome, o.error AS told_error, h.*
FROM sq_outcomes o
LEFT JOIN sq_held h ON o.seq = h.seq
