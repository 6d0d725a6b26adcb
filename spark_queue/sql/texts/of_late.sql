-- The candidates of those lines, in order.
SELECT p.*, row_number() OVER (PARTITION BY p.priority, p.fair_key ORDER BY p.seq) AS nth
FROM sq_placed p
JOIN sq_late_lines z ON p.priority = z.priority AND p.fair_key IS NOT DISTINCT FROM z.fair_key
