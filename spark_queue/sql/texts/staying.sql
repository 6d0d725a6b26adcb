-- Items that stay, since an item that is there and stays was enqueued again as them: by them that is
-- known of it.
SELECT r.seq
FROM sq_redriven r
JOIN sq_items i ON r.origin = i.seq
LEFT JOIN sq_found f ON r.origin = f.seq
WHERE f.seq IS NULL
