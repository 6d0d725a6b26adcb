-- The priorities at which rows entered.
SELECT DISTINCT r.lowest AS priority FROM sq_raised r
