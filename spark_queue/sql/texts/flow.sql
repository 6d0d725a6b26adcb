-- flow(moment instant, entered, done, failed, items)
-- The window in sixty parts, of a minute each where it is an hour: items that entered, that were
-- acked, attempts that failed, and how many items were open at its end. What was made ready again after
-- its end counts as if it had never been over, as in the depth of a day.
WITH parts AS (
  SELECT 10 * a.n + b.n AS part
  FROM (VALUES (0), (1), (2), (3), (4), (5)) AS a(n)
  CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS b(n)
),
asked AS (
  SELECT
    since,
    (now - since) / 60e0 AS part_us
  FROM sq_asked
),
events AS (
  SELECT enqueued_at AS moment, 1 AS items, 1 AS entered, 0 AS done, 0 AS failed FROM sq_lasting
  UNION ALL
  SELECT finished_at, -1, 0, CASE WHEN state = 'acked' THEN 1 ELSE 0 END, 0
  FROM sq_lasting
  WHERE finished_at IS NOT NULL
  UNION ALL
  SELECT m.at, 0, 0, 0, 1 FROM sq_transitions m WHERE m.failed
),
placed AS (
  SELECT
    cast(
      greatest(-1e0, least(59e0, ceil((e.moment - a.since) / a.part_us) - 1)) AS bigint
    ) AS part,
    e.items,
    e.entered,
    e.done,
    e.failed
  FROM events e
  CROSS JOIN asked a
),
summed AS (
  SELECT
    part,
    sum(items) AS items,
    sum(entered) AS entered,
    sum(done) AS done,
    sum(failed) AS failed
  FROM placed
  GROUP BY part
)
SELECT
  cast(max(a.since + p.part * a.part_us) AS bigint) AS moment,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.entered END), 0) AS bigint) AS entered,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.done END), 0) AS bigint) AS done,
  cast(coalesce(sum(CASE WHEN s.part = p.part THEN s.failed END), 0) AS bigint) AS failed,
  cast(coalesce(sum(s.items), 0) AS bigint) AS items
FROM parts p
CROSS JOIN asked a
LEFT JOIN summed s ON s.part <= p.part
GROUP BY p.part
ORDER BY moment
