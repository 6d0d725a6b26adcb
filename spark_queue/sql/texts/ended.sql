-- When the last item of each generation came to its end for a reader, by what its log says.
SELECT s.gen, max(s.at) AS last
FROM sq_states s
WHERE s.kind = 'item' AND s.gen >= 0 AND s.state NOT IN ('ready', 'claimed')
GROUP BY s.gen
