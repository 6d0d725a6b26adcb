"""Upkeep: what keeps the logs of a queue short, and copies it.

Imports commands, SQL, state and logs.
"""
