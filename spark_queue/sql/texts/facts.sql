-- What was found within reach: candidates, what is overdue or lost of them, and what is over.
SELECT p.eligible, p.overdue, p.lapsed, j.ended, m.room
FROM (
  SELECT
    count(*) AS eligible,
    count(CASE WHEN overdue THEN 1 END) AS overdue,
    count(CASE WHEN place = 'lost' THEN 1 END) AS lapsed
  FROM sq_placed
) p
CROSS JOIN (SELECT count(*) AS ended FROM sq_judged WHERE over_by IS NOT NULL) j
CROSS JOIN sq_room m
