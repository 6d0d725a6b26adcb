-- The items that come first in a list.
SELECT n.seq FROM sq_noted n ORDER BY n.place, n.seq LIMIT $limit
