SELECT t.tenant, '{{ var("night", "first") }}/' || t.tenant || '/' || n.number AS path
FROM (VALUES ('ann'), ('bob')) AS t(tenant) CROSS JOIN range(12) AS n(number)
