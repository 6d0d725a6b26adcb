-- Groups whose last member is not known yet.
SELECT DISTINCT m.group_key
FROM sq_members m
WHERE NOT EXISTS (SELECT 1 FROM sq_ends e WHERE e.group_key = m.group_key)
