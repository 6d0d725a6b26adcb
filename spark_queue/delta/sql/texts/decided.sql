-- The rows of a batch: who holds the key of each, if somebody does before it or in it.
-- rule: one item of a key
SELECT
  b.*,
  coalesce(h.seq, CASE WHEN b.pos > b.first_pos THEN b.first_pos + a.last_seq END) AS duplicate_of
FROM (
  SELECT
    x.*,
    CASE WHEN x.dedup_key IS NOT NULL THEN min(x.pos) OVER (PARTITION BY x.dedup_key) END AS first_pos
  FROM sq_batch x
) b
LEFT JOIN sq_holders h ON b.dedup_key = h.dedup_key
CROSS JOIN sq_asked a
