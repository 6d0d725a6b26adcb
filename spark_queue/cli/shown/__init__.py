"""What commands print: for people at 80 columns, for machines as JSON."""
