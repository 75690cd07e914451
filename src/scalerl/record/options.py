"""What a user may say about another trainer's log."""

from __future__ import annotations

from dataclasses import dataclass

from scalerl.errors import UserError

RESTARTS = ("last", "append")


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

    def __post_init__(self) -> None:
        if self.restart not in (None, *RESTARTS):
            raise UserError(f"--restart {self.restart}: say {' or '.join(RESTARTS)}")
