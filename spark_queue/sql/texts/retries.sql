-- retries(moment instant, failures, dead, claimed, claimed_again)
-- The window in sixty parts, of a minute each where it is an hour: failures, what of them was final,
-- what was claimed, and what of that had failed or been lost before.
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
placed AS (
  SELECT
    least(59, cast(floor((m.at - a.since) / a.part_us) AS bigint)) AS part,
    m.failed,
    m.granted,
    m.state,
    m.attempts + m.losses > 0 AS again
  FROM sq_transitions m
  CROSS JOIN asked a
  WHERE m.at > a.since AND (m.failed OR m.granted)
),
counted AS (
  SELECT
    part,
    count(CASE WHEN failed THEN 1 END) AS failures,
    count(CASE WHEN failed AND state = 'dead' THEN 1 END) AS dead,
    count(CASE WHEN granted THEN 1 END) AS claimed,
    count(CASE WHEN granted AND again THEN 1 END) AS claimed_again
  FROM placed
  GROUP BY part
)
SELECT
  cast(a.since + p.part * a.part_us AS bigint) AS moment,
  coalesce(c.failures, 0) AS failures,
  coalesce(c.dead, 0) AS dead,
  coalesce(c.claimed, 0) AS claimed,
  coalesce(c.claimed_again, 0) AS claimed_again
FROM parts p
CROSS JOIN asked a
LEFT JOIN counted c ON c.part = p.part
ORDER BY moment
