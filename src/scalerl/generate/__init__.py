"""The generate room."""
