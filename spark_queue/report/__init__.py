"""Report of a queue to its operator: where items are, what fails, who waits for whom.

Each panel is one text of SQL (:mod:`spark_queue.report.view_texts`), which an engine in this
process and Spark answer alike. Nothing here writes.
"""
