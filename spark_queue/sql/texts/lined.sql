-- Accepted rows with the span of their line.
SELECT /*+ BROADCAST(s) */ d.*, s.start_tag
FROM sq_lowered d
LEFT JOIN sq_spans s ON d.lowest = s.priority AND d.fair_key IS NOT DISTINCT FROM s.fair_key
