-- The items that wait, and whose time is over.
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'ready' AND s.deadline <= a.now
