-- wordings(said, wording)
-- What errors say without what differs from item to item: ids, paths and numbers. `said` is as in
-- `sq_failures`.
WITH distinct_texts AS (
  SELECT DISTINCT said FROM sq_failures
),
without_ids AS (
  SELECT
    said AS whole,
    regexp_replace(
      regexp_replace(
        said,
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}',
        '<id>'
      ),
      '0[xX][0-9a-fA-F]+',
      '<id>'
    ) AS said
  FROM distinct_texts
),
without_paths AS (
  SELECT
    whole,
    regexp_replace(
      said,
      '(^|[^0-9A-Za-z<])(([A-Za-z][0-9A-Za-z]*:/)?/[^/ ",;:()<>' || chr(39) || ']+)+/?',
      '$1<path>'
    ) AS said
  FROM without_ids
),
without_hex AS (
  SELECT
    whole,
    regexp_replace(
      said,
      '(^|[^0-9A-Za-z])(([0-9]+[a-fA-F]|[a-fA-F]+[0-9])[0-9a-fA-F]{3,}|[0-9]*[a-fA-F][0-9a-fA-F]{11,})',
      '$1<id>'
    ) AS said
  FROM without_paths
)
SELECT
  whole AS said,
  regexp_replace(said, '[0-9]+([.][0-9]+)?', '<n>') AS wording
FROM without_hex
