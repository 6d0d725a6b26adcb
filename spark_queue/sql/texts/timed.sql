-- Each candidate with its slot: its own tag, or the slot at its place in its line.
-- rule: slots of a line
SELECT p.seq, p.priority, p.fair_key, p.group_key, p.place, p.tag AS slot, p.overdue
FROM sq_placed p
LEFT JOIN sq_late_lines z ON p.priority = z.priority AND p.fair_key IS NOT DISTINCT FROM z.fair_key
WHERE z.priority IS NULL
UNION ALL
SELECT o.seq, o.priority, o.fair_key, o.group_key, o.place, s.turn AS slot, s.overdue
FROM sq_of_late o
JOIN sq_slots s ON o.priority = s.priority AND o.fair_key IS NOT DISTINCT FROM s.fair_key AND o.nth = s.nth
