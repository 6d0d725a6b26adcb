-- What is leased, in order. From the item on that finds no slot, only those that have one.
-- rule: lapsed items of a full queue
SELECT seq, turn, overdue, stage, pos
FROM (
  SELECT f.*, 1 AS stage FROM sq_first f
  UNION ALL
  SELECT g.*, 2 AS stage FROM sq_first2 g
) b
ORDER BY stage, pos LIMIT $limit
