-- Items that were others before, and which.
SELECT i.origin, i.seq FROM sq_items i WHERE i.origin IS NOT NULL
