-- Items that are lost to their holder.
SELECT DISTINCT s.seq FROM sq_outcome_rows s WHERE NOT s.is_held ORDER BY s.seq LIMIT $limit
