"""Frames of Spark into a queue and out of it, and Spark as an engine of the texts.

Imports SQL, state, columns and logs.
"""
