"""The figure of a simulated cluster: who works and who idles, device by device, over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scalerl.loop.simulate import Outcome

_COLUMNS = 900


@dataclass(slots=True)
class Timeline:
    """Stretches of work as the clock reports them (its `observer`)."""

    stretches: list[tuple[str, int, float, float, int]] = field(default_factory=list)

    def __call__(self, side: str, number: int, start: float, end: float, at_work: int) -> None:
        """Keep one stretch."""
        self.stretches.append((side, number, start, end, at_work))

    def load(self, side: str, rows: int, start: float, end: float) -> npt.NDArray[np.float64]:
        """Mean number at work in each of [rows, columns] between two moments."""
        grid = np.zeros((rows, _COLUMNS))
        width = (end - start) / _COLUMNS
        for where, number, first, last, at_work in self.stretches:
            if where != side or last <= start or first >= end:
                continue
            first, last = (max(first, start) - start) / width, (min(last, end) - start) / width
            low, high = int(first), min(int(last), _COLUMNS - 1)
            grid[number, low] += at_work * (min(last, low + 1) - first)
            if high > low:
                grid[number, low + 1 : high] += at_work
                grid[number, high] += at_work * (last - high)
        return grid


def draw_timelines(
    runs: Sequence[tuple[Outcome, Timeline]], slots: int, seconds: float, path: Path, title: str
) -> None:
    """Write a figure with one panel a run: its last `seconds`, generators as rows, the trainer as a strip."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 0.6 + 2.9 * len(runs)), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=10)
    grid = figure.add_gridspec(2 * len(runs), 1, height_ratios=[5, 1] * len(runs))
    for index, (outcome, timeline) in enumerate(runs):
        end = outcome.simulated_hours * 3600.0 - 0.02 * seconds  # stretches in progress aren't reported
        start = end - min(seconds, end)
        extent = (0.0, end - start, outcome.generators, 0.0)
        above = figure.add_subplot(grid[2 * index])
        load = timeline.load("generator", outcome.generators, start, end) / slots
        image = above.imshow(
            load, aspect="auto", extent=extent, cmap="viridis", vmin=0, vmax=1, interpolation="none"
        )
        above.set_title(_caption(outcome), fontsize=9, loc="left")
        above.set_ylabel("generator", fontsize=8)
        above.tick_params(labelsize=7, labelbottom=False)
        figure.colorbar(image, ax=above, label="slots in use", pad=0.01)
        below = figure.add_subplot(grid[2 * index + 1], sharex=above)
        busy = timeline.load("trainer", 1, start, end) > 0
        below.imshow(busy, aspect="auto", extent=(0.0, end - start, 1, 0), cmap="viridis", vmin=0, vmax=1)
        below.set_yticks([0.5], ["trainer"], fontsize=8)
        below.tick_params(labelsize=7)
        below.set_xlabel("seconds of the simulated cluster", fontsize=8)
    figure.savefig(path, dpi=130)


def _caption(outcome: Outcome) -> str:
    return (
        f"{outcome.schedule}: generators idle {outcome.generator_idle_share:.0%}, trainers idle "
        f"{outcome.trainer_idle_share:.0%}, {outcome.steps_per_device_hour:.2f} trainer steps per device-hour"
    )
