-- A loss of each item whose holder is gone.
-- rule: end of a worker
SELECT h.seq AS told_seq, a.outcome, a.error AS told_error, h.*
FROM sq_held h
CROSS JOIN sq_asked a
WHERE NOT h.is_settled AND h.is_held
