"""The rules as DataFrame transforms: no action, no Delta, nothing collected."""

from __future__ import annotations
