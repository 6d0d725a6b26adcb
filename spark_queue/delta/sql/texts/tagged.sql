-- Their tags, in an engine that adds a running sum one by one: each behind the one before, by its
-- cost. An item that keeps its place moves none. `line` tells most lines apart, as a number.
-- rule: tag of a new item
SELECT t.*, coalesce(t.round, t.tag) AS stored
FROM (
  SELECT
    q.*,
    sum(
      CASE
        WHEN q.round IS NOT NULL THEN 0e0
        WHEN q.seq = q.first_seq THEN q.start_tag + q.cost
        ELSE q.cost
      END
    ) OVER (PARTITION BY q.line, q.lowest, q.fair_key ORDER BY q.seq ROWS UNBOUNDED PRECEDING) AS tag
  FROM (SELECT /*+ REPARTITION($parts, line) */ l.* FROM sq_lined l) q
) t
