-- The fair keys with items that nothing but their turn keeps from a claim, for the whole window, and
-- that got no turn in it, or less than a twentieth of what each other key got: how many could run,
-- since when, and the first of them. The longest first.
WITH turns AS (
  SELECT s.fair_key, count(*) AS turns
  FROM sq_moves m
  JOIN sq_standing s ON s.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.moment > a.since AND m.granted
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns, count(*) AS served FROM turns
),
ordered AS (
  SELECT
    fair_key,
    since,
    first_value(seq) OVER (PARTITION BY fair_key ORDER BY since, seq) AS seq
  FROM sq_runnable
),
waiting AS (
  SELECT fair_key, count(*) AS items, min(since) AS since, min(seq) AS seq
  FROM ordered
  GROUP BY fair_key
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
)
SELECT c.fair_key, c.items, c.since, c.seq, c.turns, c.turns_of_others
FROM compared c
CROSS JOIN sq_asked a
WHERE c.since <= a.since AND c.turns * 20 * c.others < c.turns_of_others
ORDER BY c.since, c.seq
LIMIT 100
