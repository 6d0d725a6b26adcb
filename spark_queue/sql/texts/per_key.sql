-- The items of each fair key by state, how long they waited, and how long the oldest has. A wait is
-- that of the item at its place, of all waits of the key.
SELECT
  w.fair_key,
  count(CASE WHEN w.state = 'ready' THEN 1 END) AS ready,
  count(CASE WHEN w.state = 'claimed' THEN 1 END) AS claimed,
  count(CASE WHEN w.state = 'acked' THEN 1 END) AS acked,
  count(CASE WHEN w.state = 'dead' THEN 1 END) AS dead,
  count(CASE WHEN w.state = 'expired' THEN 1 END) AS expired,
  count(CASE WHEN w.state = 'cancelled' THEN 1 END) AS cancelled,
  count(w.successor) AS redriven,
  count(CASE WHEN w.state = 'refused' THEN 1 END) AS refused,
  max(CASE WHEN w.place = ceil(w.waits * 5e-1) THEN w.wait END) AS wait_p50,
  max(CASE WHEN w.place = ceil(w.waits * 95e-2) THEN w.wait END) AS wait_p95,
  max(w.wait) AS wait_max,
  max(w.age) AS oldest_age
FROM (
  SELECT
    s.*,
    count(s.wait) OVER (PARTITION BY s.fair_key) AS waits,
    row_number() OVER (PARTITION BY s.fair_key ORDER BY s.wait ASC NULLS LAST) AS place
  FROM (
    SELECT
      f.fair_key, f.state, f.successor, f.waited / 1e6 AS wait,
      CASE WHEN f.state = 'ready' AND f.waits_since <= a.now THEN (a.now - f.waits_since) / 1e6 END
        AS age
    FROM sq_stood f
    CROSS JOIN sq_asked a
  ) s
) w
GROUP BY w.fair_key
ORDER BY w.fair_key
