-- Items that may be purged, and items that have to stay.
-- Uses: log.
-- Tables: found, items, states.

-- needed_items(seq, gen)
-- The items, of those found, that a reader has open.
SELECT f.seq, f.gen FROM sq_found f WHERE f.state IN ('ready', 'claimed')

-- visible_items(seq, gen)
-- The items that a reader sees.
SELECT i.seq, i.gen FROM sq_items i

-- linked_items(seq)
-- Items whose origin stays: by them it is known to be redriven.
SELECT r.seq
FROM sq_redriven r
JOIN sq_items i ON r.origin = i.seq
LEFT JOIN sq_found f ON r.origin = f.seq
WHERE f.seq IS NULL

-- generations(gen, items, last_step)
-- The generations that have items, how many each has, and the last step that entered one.
SELECT i.gen, count(*) AS items, max(i.step) AS last_step
FROM sq_items i
WHERE i.gen >= 0
GROUP BY i.gen
ORDER BY i.gen

-- generation_ends(gen, last instant)
-- When a reader's last item of each generation ended, by its log.
SELECT s.gen, max(s.at) AS last
FROM sq_states s
WHERE s.kind = 'item' AND s.gen >= 0 AND s.state NOT IN ('ready', 'claimed')
GROUP BY s.gen
