"""Commands of a queue: each decides rows as of a snapshot, and commits them as one step.

Imports state, SQL, columns and logs; what asks tables by Spark is in one module.
"""
