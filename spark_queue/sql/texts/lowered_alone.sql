-- The same where no group says more than its line.
SELECT d.*, d.priority AS lowest FROM sq_accepted d
