"""A handler over the items of a queue: claim after claim, on executors or in this process."""
