"""The record room: what a run leaves on disk, and the readers of other trainers' logs."""
