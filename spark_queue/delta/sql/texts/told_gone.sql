-- A loss of each item whose holder is gone.
-- rule: end of a worker
SELECT h.seq AS told_seq, a.outcome, a.error AS told_error, h.*
FROM sq_held h
CROSS JOIN sq_asked a
LEFT JOIN sq_workers_ended e ON h.worker_id = e.worker_id
WHERE
  NOT h.is_settled AND h.is_held
  AND (a.is_sure OR h.lease_expires_at <= a.gone_by OR e.worker_id IS NOT NULL)
  AND h.losses >= a.least_losses
