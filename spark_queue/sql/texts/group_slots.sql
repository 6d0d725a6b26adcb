-- Of each group: slots in use, slots kept by leases that ran out, the first member that waits.
-- rule: slots of a group
SELECT
  j.group_key,
  count(CASE WHEN j.place = 'held' THEN 1 END) AS held,
  count(CASE WHEN j.place = 'lost' THEN 1 END) AS lost,
  min(CASE WHEN j.place = 'delayed' THEN j.seq END) AS barrier
FROM sq_judged j
WHERE j.over_by IS NULL AND j.group_key IS NOT NULL
GROUP BY j.group_key
