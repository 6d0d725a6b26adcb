"""Tables of a queue as logs of numbered steps: schema, heads, settings in force, addresses.

Imports configuration, results and errors; nothing of a queue's state, its SQL or its commands.
"""
