-- What its group lets start. Of a run of k: all slots of the group at once, or none.
-- rule: slots of a group, waiting head of a group, run of a group
SELECT m.seq, m.priority, m.fair_key, m.group_key, m.tag, m.inc, m.v, m.s, m.place
FROM (
  SELECT j.*, row_number() OVER (PARTITION BY j.group_key, j.place ORDER BY j.seq) AS nth
  FROM sq_judged j
  WHERE j.over_by IS NULL AND j.group_key IS NOT NULL AND j.place IN ('due', 'lost')
) m
JOIN sq_group_slots g ON m.group_key = g.group_key
CROSS JOIN sq_asked a
WHERE
  m.nth <= CASE WHEN a.run > 1 AND g.held > 0 THEN 0 ELSE a.group_limit * a.run - g.held END
    - CASE WHEN m.place = 'due' THEN g.lost ELSE 0 END
  AND (NOT a.blocking OR g.barrier IS NULL OR m.seq < g.barrier)
UNION ALL
SELECT j.seq, j.priority, j.fair_key, j.group_key, j.tag, j.inc, j.v, j.s, j.place
FROM sq_judged j
WHERE j.over_by IS NULL AND j.group_key IS NULL AND j.place IN ('due', 'lost')
