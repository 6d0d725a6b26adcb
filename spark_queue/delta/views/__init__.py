"""What is looked at: items, counts, lags and reasons."""
