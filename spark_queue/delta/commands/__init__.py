"""The commands of a queue: each is decided, committed as a step, and told."""
