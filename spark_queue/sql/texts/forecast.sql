-- forecast(trend, time_left, time_left_least, time_left_most, acked_per_second_now, enqueued_per_second_now)
-- Whether what is open becomes less, and in how many seconds it is done, if it goes on as of late: in the
-- last ten minutes, or in the window where fewer than thirty items ended in these; since there was most.
-- `least` and `most` are by parts of that time, a fifth and more; `most` is null where nothing went in the
-- newest. Rates of now are those of five minutes.
WITH edges AS (
  SELECT e.seconds
  FROM (
    VALUES (20), (40), (60), (80), (120), (180), (240), (300), (460), (600), (900), (1200), (1800), (2700),
      (3600), (7200), (14400), (28800), (43200), (86400)
  ) AS e(seconds)
),
asked AS (
  SELECT now, greatest(600e0, (now - since) / 1e6) AS seconds FROM sq_asked
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS ended, 0 AS acked FROM sq_lasting
  UNION ALL
  SELECT finished_at, -1, 0, 1, CASE WHEN state = 'acked' THEN 1 ELSE 0 END
  FROM sq_lasting
  WHERE finished_at IS NOT NULL
),
-- By how many seconds before now they happened: in up to 20, in up to 40, and so on.
parts AS (
  SELECT
    20 * cast(greatest(1e0, ceil((a.now - e.moment) / 2e7)) AS bigint) AS seconds,
    sum(e.items) AS items,
    sum(e.entered) AS entered,
    sum(e.ended) AS ended,
    sum(e.acked) AS acked
  FROM events e
  CROSS JOIN asked a
  WHERE e.moment > a.now - a.seconds * 1e6
  GROUP BY 1
),
opened AS (
  SELECT count(CASE WHEN finished_at IS NULL THEN 1 END) AS items, min(enqueued_at) AS first_at
  FROM sq_lasting
),
falls AS (
  SELECT
    g.seconds,
    cast(-coalesce(sum(p.items), 0) AS bigint) AS fall,
    cast(coalesce(sum(p.ended), 0) AS bigint) AS ended
  FROM edges g
  JOIN asked a ON g.seconds <= a.seconds
  LEFT JOIN parts p ON p.seconds <= g.seconds
  GROUP BY g.seconds
),
span AS (
  SELECT
    CASE WHEN max(CASE WHEN f.seconds <= 600 THEN f.ended END) >= 30 THEN 600 ELSE max(f.seconds) END
      AS seconds,
    max(CASE WHEN f.seconds <= 600 THEN f.ended END) = 0 AND max(f.ended) >= 30 AS is_over
  FROM falls f
),
seen AS (
  SELECT f.seconds, f.fall, s.seconds AS span, s.is_over
  FROM falls f
  JOIN span s ON f.seconds <= s.seconds
),
peaks AS (
  SELECT max(fall) AS fall, min(CASE WHEN seconds <= 600 THEN fall END) AS rise FROM seen
),
-- Since there was most; where it was so for a while, half of the time counts.
peak AS (
  SELECT
    greatest(min(s.seconds), least(max(s.span) / 2e0, max(s.seconds))) AS seconds,
    max(s.span) AS span,
    max(CASE WHEN s.is_over THEN 0 ELSE p.fall END) AS fall,
    max(p.rise) AS rise
  FROM peaks p
  JOIN seen s ON s.fall = p.fall
),
estimates AS (
  SELECT
    count(CASE WHEN s.fall <= 0 AND s.seconds <= p.seconds THEN 1 END) AS still,
    min(CASE WHEN s.fall > 0 THEN s.seconds / cast(s.fall AS double) END) AS least,
    max(CASE WHEN s.fall > 0 THEN s.seconds / cast(s.fall AS double) END) AS most
  FROM seen s
  JOIN peak p ON s.seconds * 5 >= p.span OR s.seconds = p.seconds
),
lately AS (
  SELECT
    coalesce(sum(p.acked), 0) / max(t.seconds) AS acked,
    coalesce(sum(p.entered), 0) / max(t.seconds) AS entered
  FROM (
    SELECT least(3e2, (a.now - o.first_at) / 1e6) AS seconds FROM opened o CROSS JOIN asked a
  ) t
  LEFT JOIN parts p ON p.seconds <= 300
  WHERE t.seconds > 0
)
SELECT
  CASE
    WHEN o.items = 0 THEN 'done'
    WHEN k.fall > 0 THEN 'falls'
    WHEN k.rise < 0 THEN 'rises'
    ELSE 'stays'
  END AS trend,
  CASE WHEN o.items = 0 THEN 0e0 WHEN k.fall > 0 THEN o.items * k.seconds / k.fall END AS time_left,
  CASE
    WHEN o.items > 0 AND k.fall > 0 THEN o.items * least(e.least, k.seconds / cast(k.fall AS double))
  END AS time_left_least,
  CASE
    WHEN o.items > 0 AND k.fall > 0 AND e.still = 0
      THEN o.items * greatest(e.most, k.seconds / cast(k.fall AS double))
  END AS time_left_most,
  l.acked AS acked_per_second_now,
  l.entered AS enqueued_per_second_now
FROM opened o
CROSS JOIN peak k
CROSS JOIN estimates e
LEFT JOIN lately l ON true
