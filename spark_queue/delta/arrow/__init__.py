"""What the tables of a queue say, by columns of Arrow: what Spark is asked for where there is one.

Nothing here makes an object of a row. Rows, and the heads of steps, are those that
:mod:`spark_queue.delta.plans` would write.
"""
