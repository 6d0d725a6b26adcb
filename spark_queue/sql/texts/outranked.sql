-- outranked(priority, items, since instant, seq, turns_above)
-- The priorities with items that could run for the whole window, and that got no turn in it, while
-- higher ones did: how many could run, since when, and the first of them. The longest first.
WITH turns AS (
  SELECT i.priority, count(*) AS turns
  FROM sq_transitions m
  JOIN sq_items i ON i.seq = m.seq
  CROSS JOIN sq_asked a
  WHERE m.at > a.since AND m.granted
  GROUP BY i.priority
),
ordered AS (
  SELECT
    i.priority,
    r.since,
    first_value(r.seq) OVER (PARTITION BY i.priority ORDER BY r.since, r.seq) AS seq
  FROM sq_runnable r
  JOIN sq_items i ON i.seq = r.seq
),
waiting AS (
  SELECT priority, count(*) AS items, min(since) AS since, min(seq) AS seq
  FROM ordered
  GROUP BY priority
)
SELECT w.priority, w.items, w.since, w.seq, cast(sum(t.turns) AS bigint) AS turns_above
FROM waiting w
JOIN turns t ON t.priority > w.priority
LEFT JOIN turns own ON own.priority = w.priority
CROSS JOIN sq_asked a
WHERE own.turns IS NULL AND w.since <= a.since
GROUP BY w.priority, w.items, w.since, w.seq
ORDER BY w.since, w.seq
LIMIT 100
