"""The checks, one small function each: it looks at a queue, and yields what it finds."""
