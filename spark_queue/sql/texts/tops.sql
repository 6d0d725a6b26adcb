-- The highest tag at each priority, and how many lines there are.
SELECT e.priority, max(e.round) AS top, count(*) AS lines FROM sq_line_ends e GROUP BY e.priority
