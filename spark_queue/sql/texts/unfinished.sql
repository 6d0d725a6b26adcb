-- Every item that is not over: what was touched, by its newest row, and what only entered.
-- rule: newest row of an item
SELECT
  l.seq, coalesce(l.item_gen, l.gen) AS gen, $schedule(l, t),
  l.state, l.attempts, l.losses, l.lease, l.held_until AS lease_expires_at,
  cast(NULL AS bigint) AS step
FROM sq_latest l
LEFT JOIN sq_times t ON l.seq = t.seq
WHERE l.state IN ('ready', 'claimed')
UNION ALL
SELECT
  i.seq, i.gen, $schedule(i),
  'ready' AS state, coalesce(i.errors, 0) AS attempts, 0 AS losses,
  cast(NULL AS bigint) AS lease, cast(NULL AS bigint) AS lease_expires_at,
  i.step
FROM sq_entered i
LEFT JOIN sq_latest l ON i.seq = l.seq
WHERE l.seq IS NULL
