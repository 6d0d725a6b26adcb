"""The rules, in plain Python: no Spark, no I/O, no clock of its own."""

from __future__ import annotations
