-- runnable(seq, fair_key, since instant)
-- Ready items that nothing but their turn keeps from a claim, and since when: of a group not before
-- anything was last done with one of it.
WITH done_with AS (
  SELECT group_key, max(moved_at) AS moved_at
  FROM sq_status
  WHERE group_key IS NOT NULL AND state <> 'ready'
  GROUP BY group_key
)
SELECT
  r.seq,
  r.fair_key,
  greatest(r.waits_since, r.moved_at, d.moved_at) AS since
FROM sq_reasons r
LEFT JOIN done_with d ON d.group_key = r.group_key
WHERE r.state = 'ready' AND r.reason = 'runnable'
