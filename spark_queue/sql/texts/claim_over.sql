-- The items that a claim does not hold any more.
SELECT g.seq FROM sq_granted_items g WHERE NOT g.is_held ORDER BY g.seq
