-- The order of the second stage.
-- rule again: order of service
SELECT o.*, row_number() OVER (ORDER BY o.rank_priority DESC, o.rank_turn, o.seq) AS pos, 0 AS starts
FROM sq_ranked2 o
