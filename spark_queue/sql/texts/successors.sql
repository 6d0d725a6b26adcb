-- Items that were enqueued again meanwhile, and the newest item of each.
-- rule: redrive of an ended item
SELECT r.origin, max(r.seq) AS seq FROM sq_redriven r GROUP BY r.origin
