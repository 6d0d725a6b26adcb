-- The items that a reader is not done with, of those that stand or came to stand somewhere.
SELECT f.seq, f.gen FROM sq_found f WHERE f.state IN ('ready', 'claimed')
