-- The rows of a claim: what is leased, in order, and what is over.
-- rule: loss of a lease
SELECT
  j.seq, j.gen, 'claimed' AS state, j.state AS was, j.attempts,
  j.losses + CASE WHEN j.place = 'lost' THEN 1 ELSE 0 END AS losses,
  g.turn, g.overdue,
  $schedule(j),
  g.stage, g.pos
FROM sq_granted g
JOIN sq_judged j ON g.seq = j.seq
UNION ALL
SELECT
  j.seq, j.gen, j.over_by AS state, j.state AS was, j.attempts,
  j.losses + CASE WHEN j.over_by = 'dead' THEN 1 ELSE 0 END AS losses,
  cast(NULL AS double) AS turn, cast(NULL AS boolean) AS overdue,
  $schedule(j),
  3 AS stage, j.seq AS pos
FROM sq_judged j
WHERE j.over_by IS NOT NULL
ORDER BY stage, pos
