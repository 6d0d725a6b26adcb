-- The rows of a batch that are not taken: duplicates, and what is behind the cut.
SELECT d.seq, d.duplicate_of
FROM sq_duplicates d
CROSS JOIN sq_asked a
WHERE a.cut IS NULL OR d.seq < a.cut
UNION ALL
SELECT b.seq, cast(NULL AS bigint) AS duplicate_of
FROM sq_batch b
CROSS JOIN sq_asked a
WHERE b.seq >= a.cut
