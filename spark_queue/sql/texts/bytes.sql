-- What the values of items take.
SELECT coalesce(sum(z.bytes), 0) AS bytes FROM sq_sized z
