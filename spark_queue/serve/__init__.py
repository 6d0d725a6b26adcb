"""Pages of queues, as they are now: the panels of a report, for a browser.

A page only reads; nothing is written by a GET. What an operator does needs that it was
allowed at the start, a token, and a confirmation; its step in the log names who did it.
"""
