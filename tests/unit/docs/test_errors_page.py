from __future__ import annotations

import inspect

from spark_queue import errors
from spark_queue.errors import SparkQueueError
from tests.unit.docs import errors_page


def test_troubleshooting_has_each_error_as_the_code_does() -> None:
    """The page is made of the errors, and names all of them with what to do."""
    every = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, SparkQueueError) and kind is not SparkQueueError
    }

    assert set(errors_page.advice()) == every
    assert errors_page.PAGE.read_text("utf-8") == errors_page.page()
