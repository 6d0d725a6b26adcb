"""Delta tables behind queues of a process: a front's journal, and idempotency keys.

Imports upkeep, commands, state and logs, and the rules of :mod:`spark_queue.memory`.
"""
