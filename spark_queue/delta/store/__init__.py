"""What a step works with: the logs, what this process knows of them, and who may write."""
