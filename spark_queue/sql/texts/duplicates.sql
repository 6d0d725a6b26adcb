-- The rows of a batch whose key somebody holds, before it or in it, and who.
-- rule: one item of a key
SELECT q.seq, q.dedup_key, q.duplicate_of
FROM (
  SELECT
    b.seq, b.dedup_key,
    CASE
      WHEN b.seq = o.seq THEN NULL
      WHEN b.seq > o.seq THEN coalesce(s.seq, o.seq)
      ELSE coalesce(greatest(h.seq, s.seq), CASE WHEN b.seq > f.seq THEN f.seq END)
    END AS duplicate_of
  FROM sq_batch b
  LEFT JOIN sq_holders h ON b.dedup_key = h.dedup_key
  LEFT JOIN sq_firsts f ON b.dedup_key = f.dedup_key
  LEFT JOIN sq_own_keys o ON b.dedup_key = o.dedup_key
  LEFT JOIN sq_successors s ON b.origin = s.origin
) q
WHERE q.duplicate_of IS NOT NULL
