"""Views of a queue: items, counts, lags and reasons."""
