"""The objective room."""
