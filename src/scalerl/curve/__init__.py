"""The curve room."""
