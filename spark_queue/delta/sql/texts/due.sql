-- The items that wait, and whose time is over.
-- rule again: deadline of an item
SELECT s.*
FROM sq_status s
CROSS JOIN sq_asked a
WHERE s.state = 'ready' AND least(s.expires_at, s.enqueued_at + a.max_age) <= a.now
