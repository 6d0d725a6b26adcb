"""Contents of a queue's tables as columns of Arrow, without Spark.

Nothing here makes an object of a row. Rows, and the heads of steps, are those that
:mod:`spark_queue.delta.plans` would write.
"""
