"""Upkeep: what keeps the logs of a queue short."""
