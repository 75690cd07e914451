"""Readers of other trainers' logs: one file a format, chosen by content."""
