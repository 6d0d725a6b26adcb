"""The durable engine: the only package that knows the two Delta tables of a queue."""

from __future__ import annotations
