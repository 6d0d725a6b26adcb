"""State of a journaled queue under one lock, and its writer thread."""
