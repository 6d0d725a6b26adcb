-- The rows of a settle that are written.
SELECT s.* FROM sq_outcome_rows s WHERE s.is_held
