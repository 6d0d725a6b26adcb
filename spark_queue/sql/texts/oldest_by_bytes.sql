-- The items that have waited longest, until they are so many bytes.
SELECT s.*
FROM (
  SELECT t.*, sum(z.bytes) OVER (ORDER BY t.seq) - z.bytes AS passed
  FROM sq_turned t
  JOIN sq_sized z ON t.seq = z.seq
  WHERE t.state = 'ready'
) s
WHERE s.passed < $limit
