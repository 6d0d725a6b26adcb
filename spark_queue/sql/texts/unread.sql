-- The items that a reader sees.
SELECT i.seq, i.gen FROM sq_items i
