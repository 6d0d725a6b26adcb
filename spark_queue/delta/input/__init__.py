"""Checks of a user's rows, and their keys, texts and sizes."""
