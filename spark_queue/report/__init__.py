"""Report to a queue's operator: where items are, failures, who waits and why.

Each panel is a view of the one catalogue (:mod:`spark_queue.sql.statements`), which SQL in
this process and Spark answer alike. Nothing here writes.
"""
