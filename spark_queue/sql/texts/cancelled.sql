-- The items that a cancel of a step ended, and that are cancelled since. Who drops an item says why.
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'cancelled' AND s.moved_step = a.step AND s.moved_error IS NULL
