-- The generations that have items, how many each has, and the last step that entered one.
SELECT i.gen, count(*) AS items, max(i.step) AS last_step
FROM sq_items i
WHERE i.gen >= 0
GROUP BY i.gen
ORDER BY i.gen
