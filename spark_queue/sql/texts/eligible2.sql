-- An item whose lease ran out and that was not served has its slot. It comes as if nothing else
-- waited.
-- rule: lapsed items of a full queue
SELECT
  e.seq, e.priority, e.fair_key, e.group_key, e.tag, e.inc,
  coalesce(p.turn, 0e0) AS v, coalesce(p.seq, 0) AS s, e.place
FROM sq_eligible e
LEFT JOIN sq_first f ON e.seq = f.seq
LEFT JOIN sq_pointers2 p ON e.priority = p.priority
WHERE e.place = 'lost' AND f.seq IS NULL
