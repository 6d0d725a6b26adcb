-- Without a fair key there is one line, in the order of seq: nothing is overdue.
-- rule: one line without keys
SELECT e.*, cast(NULL AS double) AS late, false AS overdue FROM sq_eligible e
