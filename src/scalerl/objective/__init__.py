"""Pure functions of the objective: advantages, losses, aggregation, filters, diagnostics. No config, no I/O.

Shapes: T sampled tokens laid out flat, N completions, P prompts. `completion` [T] says which completion a
token is of.
"""
