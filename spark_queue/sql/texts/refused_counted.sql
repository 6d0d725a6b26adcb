-- How many rows are not taken.
SELECT count(*) AS items, count(r.duplicate_of) AS duplicates FROM sq_refused r
