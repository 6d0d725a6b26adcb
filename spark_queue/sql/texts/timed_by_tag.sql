-- Where nothing is overdue each candidate has its own tag.
-- rule: slots of a line
SELECT p.seq, p.priority, p.fair_key, p.group_key, p.place, p.tag AS slot, p.overdue
FROM sq_placed p
