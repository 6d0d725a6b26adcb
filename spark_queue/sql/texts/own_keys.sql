-- The first row of each key that was the item which holds it: it takes that item's place.
SELECT b.dedup_key, min(b.seq) AS seq
FROM sq_batch b
JOIN sq_holders h ON b.dedup_key = h.dedup_key
WHERE b.origin = h.seq
GROUP BY b.dedup_key
