-- What views of several files say in the same words: `$name(...)` stands for the text, with its words.

-- turn(tag, w)
-- The turn of a stored tag, by the weight of its key (`w`, which may be missing).
-- rule: weight of a key
coalesce($w.pin_turn, 0e0) + ($tag - coalesce($w.pin_tag, 0e0)) / coalesce($w.weight, 1e0)

-- stored(turn, w)
-- The tag that is stored for a turn.
-- rule: weight of a key
coalesce($w.pin_tag, 0e0) + ($turn - coalesce($w.pin_turn, 0e0)) * coalesce($w.weight, 1e0)

-- moves(cost, w)
-- How far an item moves its key: a number that sums of it do not round.
greatest($unit, $cost / coalesce($w.weight, 1e0) + $rounder - $rounder)

-- ahead(turn, seq, v, s)
-- Whether the order has yet to reach an item: it has come to the turn `v` and the item `s`.
-- rule: overdue item
($turn > $v OR ($turn = $v AND $seq > $s))

-- unknown(row, a)
-- Whether an untouched item counts, as the checkpoint does not know it.
-- rule: untouched item
($row.step > $a.checkpoint_step OR $ahead($row.tag, $row.seq, $row.checkpoint_turn, $row.checkpoint_seq))

-- in_order(priority, turn, seq)
-- What items are sorted by.
-- rule: order of service
$priority DESC, $turn, $seq

-- deadline(own, entered, a)
-- When an item that waits has expired: by itself, or because it has become too old.
-- rule: deadline of an item
least($own, $entered + $a.max_age)

-- freed(until, a)
-- When a claim may take over the items of a lease that ends.
-- rule: place at an instant
$until + $a.lease_grace

-- in_nanoseconds(missing, a)
-- The first microsecond from which on so many nanoseconds have passed.
$a.now + cast(ceil($missing / 1e3) AS bigint)

-- limited_key(row, m)
-- The key of an item by which a limit goes.
CASE $m.place WHEN 0 THEN $row.fair_key WHEN 1 THEN $row.group_key
  ELSE get_json_object($row.flow_keys, $m.path) END

-- over_by(row, a)
-- What ends an item that does not run.
-- rule: deadline of an item, loss of a lease
CASE
    WHEN $row.by_time = 'held' THEN NULL
    WHEN $row.ends_at <= $a.now THEN 'expired'
    WHEN $row.by_time = 'lost' AND $row.losses + 1 >= $a.max_losses THEN 'dead'
  END
