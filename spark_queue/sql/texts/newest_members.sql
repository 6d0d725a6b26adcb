-- The newest of some members of each group.
SELECT m.*
FROM sq_members m
JOIN (SELECT i.group_key, max(i.seq) AS seq FROM sq_members i GROUP BY i.group_key) n
  ON m.group_key = n.group_key AND m.seq = n.seq
