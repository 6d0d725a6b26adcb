"""Data source ``spark_queue`` of Spark: views of a queue as frames and SQL views."""
