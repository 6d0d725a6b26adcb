"""Rules over sets of items: views of SQL, their engines here, and planners by them.

Imports state, columns and logs; nothing of Spark.
"""
