import os

import spark_queue


def model(dbt, session):
    """Enqueue the files of a night, once for all builds of that night."""
    # A line of its own: dbt looks for these calls in the text, and overlooks some within others.
    night = dbt.config.get("night")
    files = dbt.ref("due").to_arrow_table()
    queue = spark_queue.open(os.environ["NIGHT_QUEUE"])
    return queue.enqueue(files, batch=(f"files of {night}", 1)).outcomes
