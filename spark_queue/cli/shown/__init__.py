"""Output of commands: text of 80 columns, or JSON."""
