-- The fair keys with items that nothing but their turn keeps from a claim, and that got none in the
-- window, while others did: how many could run, since when, and the first of them. The longest first.
WITH turns AS (
  SELECT s.fair_key, count(*) AS turns
  FROM sq_moves m
  JOIN sq_standing s ON s.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.moment > a.since AND m.granted
  GROUP BY s.fair_key
),
every_turn AS (
  SELECT cast(sum(turns) AS bigint) AS turns FROM turns
),
could_run AS (
  SELECT
    seq,
    fair_key,
    greatest(enqueued_at, coalesce(available_at, enqueued_at), moved_at) AS since
  FROM sq_reasons
  WHERE state = 'ready' AND reason = 'runnable'
),
waiting AS (
  SELECT fair_key, count(*) AS items, min(since) AS since, min_by(seq, since) AS seq
  FROM could_run
  GROUP BY fair_key
)
SELECT w.fair_key, w.items, w.since, w.seq, e.turns AS turns_of_others
FROM waiting w
LEFT JOIN turns t ON t.fair_key IS NOT DISTINCT FROM w.fair_key
CROSS JOIN every_turn e
CROSS JOIN sq_asked a
WHERE t.turns IS NULL AND e.turns > 0 AND w.since <= a.since
ORDER BY w.since, w.seq
LIMIT 100
