-- Items beyond reach that stand before one within it: in a line that has something overdue, or in a
-- group whose members stand in several lines. Tags prune; they are not the order.
-- rule: reach of a claim
SELECT f.seq
FROM sq_far f
JOIN (
  SELECT m.group_key, max(m.seq) AS upto
  FROM (
    SELECT p.seq, p.group_key FROM sq_placed p
    UNION ALL
    SELECT o.seq, o.group_key FROM sq_far_of_lines o
  ) m
  WHERE m.group_key IS NOT NULL
  GROUP BY m.group_key
) g ON f.group_key = g.group_key AND f.seq < g.upto
UNION
SELECT l.seq FROM sq_far_of_lines l
