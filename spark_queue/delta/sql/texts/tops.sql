-- The highest tag at each priority.
SELECT e.priority, max(e.round) AS top FROM sq_line_ends e GROUP BY e.priority
