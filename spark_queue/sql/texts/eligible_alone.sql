-- In a queue without groups everything may start.
-- rule: slots of a group
SELECT j.seq, j.priority, j.fair_key, j.group_key, j.tag, j.inc, j.v, j.s, j.place
FROM sq_judged j
WHERE j.over_by IS NULL AND j.place IN ('due', 'lost')
