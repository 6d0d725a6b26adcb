-- The first row of each key that a batch may have twice.
SELECT b.dedup_key, min(b.seq) AS seq
FROM sq_batch b
JOIN sq_repeated r ON b.dedup_hash = r.dedup_hash
GROUP BY b.dedup_key
