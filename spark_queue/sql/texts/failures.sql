-- failures(seq, step, at instant, attempts, said)
-- Every failure, with the begin of what its error says; all digits are 0 there, so that there are
-- few of them.
SELECT
  seq,
  step,
  m.at,
  attempts,
  translate(substr(split_part(error, chr(10), 1), 1, 300), '0123456789', '0000000000') AS said
FROM sq_transitions m
WHERE failed
