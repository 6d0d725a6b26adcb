-- depth(moment instant, items)
-- How many items were open, every half hour of the last day. What was made ready again after its end
-- counts as if it had never been over.
WITH edges AS (
  SELECT 8 * a.n + b.n AS edge
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7)) AS b(n)
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items FROM sq_lasting
  UNION ALL
  SELECT finished_at AS moment, -1 AS items FROM sq_lasting WHERE finished_at IS NOT NULL
),
placed AS (
  SELECT
    greatest(0e0, ceil(47 - (a.now - e.moment) / 1.8e9)) AS edge,
    e.items
  FROM events e
  CROSS JOIN sq_asked a
),
summed AS (
  SELECT edge, sum(items) AS items FROM placed GROUP BY edge
)
SELECT
  max(a.now) - (47 - e.edge) * cast(1800000000 AS bigint) AS moment,
  cast(coalesce(sum(s.items), 0) AS bigint) AS items
FROM edges e
CROSS JOIN sq_asked a
LEFT JOIN summed s ON s.edge <= e.edge
GROUP BY e.edge
ORDER BY moment
