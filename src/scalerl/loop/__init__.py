"""The loop room."""
