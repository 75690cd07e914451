"""Progress of runs on the terminal: a live table where there is one, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

SECONDS_BETWEEN_LINES = 20.0


@dataclass
class RunProgress:
    """What is shown of one run."""

    name: str
    steps: int
    step: int = 0
    pass_rate: float | None = None
    train_pass_rate: float | None = None
    compute: Mapping[str, Any] = field(default_factory=dict)
    state: str = "waiting"
    started: float | None = None
    first_step: int = 0

    def begin(self, step: int = 0) -> None:
        """The run is being worked on, from `step` on."""
        if self.started is None:
            self.started, self.first_step, self.state = time.monotonic(), step, "running"

    @property
    def seconds_left(self) -> float | None:
        """From the pace so far; None before the first steps."""
        if self.started is None or self.step <= self.first_step or self.state != "running":
            return None
        pace = (time.monotonic() - self.started) / (self.step - self.first_step)
        return pace * (self.steps - self.step)

    def cells(self) -> tuple[str, ...]:
        """The row of the table: run, step, held-out and training pass rate, compute, time left."""
        rate = "-" if self.pass_rate is None else f"{self.pass_rate:.3f}"
        train = "-" if self.train_pass_rate is None else f"{self.train_pass_rate:.3f}"
        left = self.seconds_left
        when = self.state if left is None else f"{int(left) // 60}:{int(left) % 60:02d} left"
        return self.name, f"{self.step}/{self.steps}", rate, train, show_compute(self.compute), when


def show_compute(compute: Mapping[str, Any]) -> str:
    """Return device-hours where the run has them, else FLOPs."""
    if (hours := compute.get("device_hours")) is not None:
        return f"{hours:,.4g} device-hours"
    flops = compute.get("flops") or 0.0
    return f"{flops:.3g} FLOPs"


def table_of(rows: Sequence[RunProgress]) -> Table:
    """Return the progress table."""
    table = Table(box=None, pad_edge=False)
    for title in ("run", "step", "held-out", "training", "compute", "time"):
        table.add_column(title, justify="left" if title in ("run", "time") else "right")
    for row in rows:
        table.add_row(*row.cells())
    return table


class Display:
    """Shows rows while something works on them; `refresh` is called whenever something has changed."""

    def __init__(self, rows: Sequence[RunProgress], console: Console, quiet: bool = False) -> None:
        self._rows = rows
        self._console = console
        self._quiet = quiet
        self._live = Live(table_of(rows), console=console, refresh_per_second=4, transient=False)
        self._last_line = time.monotonic()

    def __enter__(self) -> Display:
        if self._console.is_terminal and not self._quiet:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live.is_started:
            self._live.update(table_of(self._rows))
            self._live.stop()

    def refresh(self) -> None:
        """Redraw the table; without a terminal print a line a run every twenty seconds."""
        if self._live.is_started:
            self._live.update(table_of(self._rows))
        elif not self._quiet and time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            for row in self._rows:
                if row.state == "running":
                    self._console.print("  ".join(row.cells()), highlight=False)

    def say(self, message: str) -> None:
        """Print a line above the table."""
        self._console.print(message, highlight=False, soft_wrap=True)
