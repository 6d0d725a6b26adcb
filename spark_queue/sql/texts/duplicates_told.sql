-- The first duplicate, of so many.
SELECT d.dedup_key, d.duplicate_of, n.items
FROM sq_duplicates d
JOIN (SELECT min(c.seq) AS seq, count(*) AS items FROM sq_duplicates c) n ON d.seq = n.seq
