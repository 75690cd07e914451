"""The task room."""
