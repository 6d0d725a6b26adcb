-- When items that fail are tried again, in an engine that has the draw of the jitter. A fraction of
-- a second is rounded by itself, and a half to the even.
-- rule again: delay of a retry
SELECT
  d.seq,
  d.now + cast(floor(d.delay) AS bigint) * 1000000
    + cast(rint((d.delay - floor(d.delay)) * 1e6) AS bigint) AS available_at
FROM (
  SELECT
    f.seq, a.now,
    y.seconds * (1e0 - a.jitter
      * (crc32(concat(cast(f.seq AS string), ':', cast(f.attempts AS string))) / 4294967296e0)
    ) AS delay
  FROM sq_failing f
  JOIN sq_delays y ON f.attempts = y.attempts
  CROSS JOIN sq_asked a
) d
