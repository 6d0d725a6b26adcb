-- What is said of items, with the failures after which each is dead; null for none.
-- rule: attempts of an item
SELECT t.*, least(coalesce(t.max_attempts, a.max_attempts), a.punted_at) AS most_attempts
FROM sq_told t
CROSS JOIN sq_asked a
