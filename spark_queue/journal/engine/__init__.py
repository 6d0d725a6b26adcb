"""What is under the one lock of a journaled queue, and the thread that writes it down."""
