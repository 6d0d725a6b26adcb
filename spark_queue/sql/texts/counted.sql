-- The facts of the rows of a claim: how many, and where the order stands after them.
SELECT
  k.state, k.was, k.priority, count(*) AS items,
  max(k.turn) AS turn, max(CASE WHEN k.turn = k.top THEN k.seq END) AS seq
FROM (
  SELECT c.*, max(c.turn) OVER (PARTITION BY c.state, c.was, c.priority) AS top FROM sq_chosen c
) k
GROUP BY k.state, k.was, k.priority
