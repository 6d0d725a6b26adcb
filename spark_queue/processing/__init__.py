"""A handler over the items of a queue: on executors, claim after claim."""
