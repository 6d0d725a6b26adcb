"""The same without Spark: columns from DDL, keys and sizes over Arrow, rows of any kind."""
