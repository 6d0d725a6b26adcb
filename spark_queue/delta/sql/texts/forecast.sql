-- forecast(trend, time_left, time_left_least, time_left_most, acked_per_second_now, enqueued_per_second_now)
-- Whether what is open becomes less, and in how many seconds it is done, if it goes on as in the last ten
-- minutes: since there was most in them. `least` and `most` are by parts of them, of a minute and more;
-- `most` is null where nothing went in the newest. `acked` and `entered` are a second, in the last five minutes.
WITH edges AS (
  SELECT 6 * a.n + b.n AS edge
  FROM (VALUES (0), (1), (2), (3), (4)) AS a(n)
  CROSS JOIN (VALUES (1), (2), (3), (4), (5), (6)) AS b(n)
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS acked FROM sq_lasting
  UNION ALL
  SELECT finished_at, -1, 0, CASE WHEN state = 'acked' THEN 1 ELSE 0 END
  FROM sq_lasting
  WHERE finished_at IS NOT NULL
),
-- What happened between 20 s before now and now is of the first part, and so on.
parts AS (
  SELECT
    cast(greatest(1e0, ceil((a.now - e.moment) / 2e7)) AS bigint) AS edge,
    sum(e.items) AS items,
    sum(e.entered) AS entered,
    sum(e.acked) AS acked
  FROM events e
  CROSS JOIN sq_asked a
  WHERE e.moment > a.now - 600000000
  GROUP BY 1
),
opened AS (
  SELECT count(CASE WHEN finished_at IS NULL THEN 1 END) AS items, min(enqueued_at) AS first_at
  FROM sq_lasting
),
falls AS (
  SELECT g.edge, cast(-coalesce(sum(p.items), 0) AS bigint) AS fall
  FROM edges g
  LEFT JOIN parts p ON p.edge <= g.edge
  GROUP BY g.edge
),
peaks AS (
  SELECT max(fall) AS fall, min(fall) AS rise FROM falls
),
-- Since there was most; where it was so for a while, up to five minutes of that count.
peak AS (
  SELECT
    greatest(min(f.edge), least(15, max(f.edge))) AS edge, max(p.fall) AS fall, max(p.rise) AS rise
  FROM peaks p
  JOIN falls f ON f.fall = p.fall
),
estimates AS (
  SELECT
    count(CASE WHEN f.fall <= 0 AND f.edge <= p.edge THEN 1 END) AS still,
    min(CASE WHEN f.fall > 0 THEN f.edge * 2e1 / f.fall END) AS least,
    max(CASE WHEN f.fall > 0 THEN f.edge * 2e1 / f.fall END) AS most
  FROM falls f
  JOIN peak p ON f.edge >= 3 OR f.edge = p.edge
),
lately AS (
  SELECT
    coalesce(sum(p.acked), 0) / max(t.seconds) AS acked,
    coalesce(sum(p.entered), 0) / max(t.seconds) AS entered
  FROM (
    SELECT least(3e2, (a.now - o.first_at) / 1e6) AS seconds FROM opened o CROSS JOIN sq_asked a
  ) t
  LEFT JOIN parts p ON p.edge <= 15
  WHERE t.seconds > 0
)
SELECT
  CASE
    WHEN o.items = 0 THEN 'done'
    WHEN k.fall > 0 THEN 'falls'
    WHEN k.rise < 0 THEN 'rises'
    ELSE 'stays'
  END AS trend,
  CASE
    WHEN o.items = 0 THEN 0e0
    WHEN k.fall > 0 THEN o.items * k.edge * 2e1 / k.fall
  END AS time_left,
  CASE WHEN k.fall > 0 THEN o.items * e.least END AS time_left_least,
  CASE WHEN k.fall > 0 AND e.still = 0 THEN o.items * e.most END AS time_left_most,
  l.acked AS acked_per_second_now,
  l.entered AS enqueued_per_second_now
FROM opened o
CROSS JOIN peak k
CROSS JOIN estimates e
LEFT JOIN lately l ON true
