"""Views of a queue: items, counts, lags and reasons.

Imports commands, frames of Spark, SQL, state and logs.
"""
