"""What a user may say about another trainer's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Fields, scale, devices ('64+16'), model parameters, what a restart means; None: left to the reader."""

    x: str | None = None
    y: str | None = None
    group: str | None = None
    scale: str | None = None
    devices: str | None = None
    params: float | None = None
    restart: str | None = None
