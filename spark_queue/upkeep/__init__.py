"""Upkeep: what keeps the logs of a queue short, and copies it.

Imports views, commands, frames of Spark, SQL, state and logs.
"""
