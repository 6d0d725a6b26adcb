"""The state of a small queue in this process, from which its small steps are decided.

What Spark needs a handful of queries for, each of which is planned again, the rules of
:mod:`spark_queue.rules` decide in a millisecond. The steps are the same: the same rows,
the same fence, in the same two logs; a large step is planned by Spark, and either may follow upon
the other (``docs/adr/0019-replica.md``).
"""
