"""The record room: what a run leaves on disk."""
