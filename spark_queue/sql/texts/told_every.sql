-- One outcome for all that the holder has not settled.
-- rule: holder of a lease
SELECT h.seq AS told_seq, a.outcome, a.error AS told_error, h.*
FROM sq_held h
CROSS JOIN sq_asked a
WHERE NOT h.is_settled
