-- starving(fair_key, items, since instant, seq, turns, turns_of_others)
-- The fair keys with items that nothing but their turn keeps from a claim, for the whole window, and
-- that got no turn in it, or less than a twentieth of what each other key got: how many could run,
-- since when, and the first of them. The longest first.
WITH turns AS (
  SELECT s.fair_key, count(*) AS turns
  FROM sq_transitions m
  JOIN sq_status s ON s.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.at > a.since AND m.granted
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns, count(*) AS served FROM turns
),
waiting AS (
  SELECT fair_key, count(*) AS items, min(since) AS since FROM sq_runnable GROUP BY fair_key
),
compared AS (
  SELECT
    w.*,
    coalesce(t.turns, 0) AS turns,
    e.turns - coalesce(t.turns, 0) AS turns_of_others,
    e.served - CASE WHEN t.turns IS NULL THEN 0 ELSE 1 END AS others
  FROM waiting w
  LEFT JOIN turns t ON t.fair_key IS NOT DISTINCT FROM w.fair_key
  CROSS JOIN every_turn e
),
starving AS (
  SELECT c.*
  FROM compared c
  CROSS JOIN sq_asked a
  WHERE c.since <= a.since AND c.turns * 20 * c.others < c.turns_of_others
)
SELECT s.fair_key, s.items, s.since, min(r.seq) AS seq, s.turns, s.turns_of_others
FROM starving s
JOIN sq_runnable r ON r.fair_key IS NOT DISTINCT FROM s.fair_key AND r.since = s.since
GROUP BY s.fair_key, s.items, s.since, s.turns, s.turns_of_others
ORDER BY s.since, seq
LIMIT 100
