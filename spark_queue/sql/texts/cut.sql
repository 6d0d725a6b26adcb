-- The first row that finds no room: an item is taken while there are fewer bytes than the limit.
SELECT min(q.seq) AS seq
FROM (
  SELECT
    b.seq,
    row_number() OVER (ORDER BY b.seq) AS items,
    sum(b.bytes) OVER (ORDER BY b.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
  FROM sq_batch b
  WHERE NOT EXISTS (SELECT 1 FROM sq_duplicates d WHERE d.seq = b.seq)
) q
CROSS JOIN sq_asked a
WHERE q.items > a.room_items OR coalesce(q.before, 0) >= a.room_bytes
