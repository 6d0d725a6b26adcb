-- Of some items, those that a reader sees.
SELECT c.seq FROM sq_candidates c CROSS JOIN sq_asked a WHERE c.step > a.since_step
