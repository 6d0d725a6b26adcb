"""Upkeep: it keeps the logs of a queue short, and copies them.

Imports views, commands, frames of Spark, SQL, state and logs.
"""
