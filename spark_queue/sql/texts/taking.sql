-- taking(per_second, least, most, work)
-- How many items are claimed a second: in the last ten minutes, or in the window where fewer than thirty were
-- in these. `least` and `most` are by parts of that time, a fifth and a half of it. `work` is the seconds from a
-- claim to its settle, of half of the items.
WITH asked AS (
  SELECT now, greatest(6e8, now - since) AS lasts FROM sq_asked
),
claims AS (
  SELECT (a.now - t.at) / 1e6 AS ago
  FROM sq_transitions t
  CROSS JOIN asked a
  WHERE t.granted AND t.at > a.now - a.lasts
),
span AS (
  SELECT CASE WHEN count(CASE WHEN c.ago <= 600 THEN 1 END) >= 30 THEN 600e0 ELSE max(a.lasts) / 1e6 END AS seconds
  FROM asked a
  LEFT JOIN claims c ON true
),
first_claim AS (
  SELECT greatest(1e0, least(s.seconds, (max(a.now) - min(t.at)) / 1e6)) AS seconds
  FROM span s
  CROSS JOIN asked a
  LEFT JOIN sq_transitions t ON t.granted
  GROUP BY s.seconds
),
rates AS (
  SELECT f.seconds * p.part AS seconds, count(c.ago) / (f.seconds * p.part) AS per_second, p.part
  FROM first_claim f
  CROSS JOIN (VALUES (2e-1), (5e-1), (1e0)) AS p(part)
  LEFT JOIN claims c ON c.ago <= f.seconds * p.part
  GROUP BY f.seconds, p.part
)
SELECT
  coalesce(max(CASE WHEN r.part = 1 THEN r.per_second END), 0e0) AS per_second,
  coalesce(min(r.per_second), 0e0) AS least,
  coalesce(max(r.per_second), 0e0) AS most,
  (SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds) FROM sq_service_times) AS work
FROM rates r
