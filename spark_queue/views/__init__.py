"""Views of a queue: items, counts, lags and reasons.

Imports commands, SQL, state and logs.
"""
