-- Of each item that anything was done with: its newest transition, its first and last grant, and its
-- last error.
-- rule again: newest row of an item
SELECT
  seq,
  max(step) AS step,
  min(CASE WHEN granted THEN moment END) AS first_claimed_at,
  max(CASE WHEN granted THEN moment END) AS claimed_at,
  max(CASE WHEN error IS NOT NULL THEN step END) AS failed_step
FROM sq_moves
GROUP BY seq
