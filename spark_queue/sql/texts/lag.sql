-- What a reader is not done with.
SELECT
  count(*) AS items,
  coalesce(sum(z.bytes), 0) AS bytes,
  count(CASE WHEN t.state = 'claimed' THEN 1 END) AS claimed,
  min(CASE WHEN t.state = 'ready' THEN greatest(z.enqueued_at, t.available_at) END) AS oldest,
  min(z.step) AS first_step
FROM sq_turned t
JOIN sq_sized z ON t.seq = z.seq
