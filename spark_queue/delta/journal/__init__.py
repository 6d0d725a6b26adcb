"""A queue on Delta as the durable half of a journaled queue, with Spark or without."""
