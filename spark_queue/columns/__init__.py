"""Columns of a user: types, keys, expressions, values and sizes.

Imports the schema of logs and the types of Spark; knows no queue.
"""
