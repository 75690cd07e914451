"""Compute axes of a foreign log: tokens, seconds, device-hours, FLOPs, from whatever fields it has."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from scalerl.errors import UserError
from scalerl.record.columns import Columns
from scalerl.record.fields import SECONDS_STEP, SECONDS_TOTAL, TOKENS_STEP, TOKENS_TOTAL, canonical, role_of
from scalerl.record.restarts import resolve
from scalerl.record.schema import UNSTATED_KIND, Devices

Floats = npt.NDArray[np.float64]
StepsOf = Callable[[str], tuple[Floats, Floats]]
"""(step [n], value [n]) of a field, NaN left out, in the order of the file."""

FLOPS_PER_TOKEN = 8.0
"""6 N for each token trained on and 2 N for each token generated: a log's tokens are both."""


@dataclass
class Axis:
    """One axis as a cumulative curve over steps: `total[i]` at the end of `step[i]`, and its source."""

    name: str
    source: str
    step: Floats
    total: Floats
    guesses: list[str] = field(default_factory=list)

    def at(self, step: Floats) -> Floats:
        """Values at steps [n], interpolated; up to two intervals beyond the last one by the last slope."""
        if not len(self.step):
            return np.full(len(step), np.nan)
        xs, ys = self.step, self.total
        if xs[0] > 0:
            xs, ys = np.append(0.0, xs), np.append(0.0, ys)
        found = np.interp(step, xs, ys)
        interval = float(np.median(np.diff(self.step))) if len(self.step) > 1 else 1.0
        beyond = step > xs[-1]
        if bool(beyond.any()) and len(xs) > 1:
            slope = (ys[-1] - ys[-2]) / (xs[-1] - xs[-2])
            found = np.where(beyond, ys[-1] + slope * (step - xs[-1]), found)
        found[step > xs[-1] + 2 * interval] = np.nan
        return found

    def times(self, factor: float, name: str, source: str) -> Axis:
        """The axis in another unit."""
        return Axis(name, source, self.step, self.total * factor, list(self.guesses))


def parse_devices(text: str) -> Devices:
    """'64+16' generators and trainers, or '8' that do both; a kind may follow: '64+16:H100'."""
    match = re.fullmatch(r"\s*(\d+)(?:\s*\+\s*(\d+))?\s*(?:[:x]\s*(\S+))?\s*", text)
    if not match or int(match[1]) + int(match[2] or 0) == 0:
        raise UserError(f"--devices {text}: say 8, or 64+16 (generators+trainers), or with a kind 64+16:H100")
    kind = match[3] or UNSTATED_KIND
    if match[2] is None:
        return Devices(kind=kind, generators=0, trainers=int(match[1]))
    return Devices(kind=kind, generators=int(match[1]), trainers=int(match[2]))


def cumulative(name: str, source: str, step: Floats, value: Floats, restart: str | None) -> Axis:
    """A field that already counts up. After a restart its last segment counts."""
    done = resolve(step, restart or "last", source)
    total = value[done.kept]
    axis = Axis(name, source, done.step, total)
    if len(total) and (float(total[0]) < 0 or bool(np.any(np.diff(total) < 0))):
        return Axis(name, source, np.zeros(0), np.zeros(0))
    return axis


def summed(name: str, source: str, step: Floats, value: Floats, restart: str | None) -> Axis:
    """A field of one step, summed over steps: each row stands for the steps since the row before.

    A log whose first step is 0 counts from 0: that row is one step. A log that begins late is extended
    backwards by its own mean, which is said.
    """
    done = resolve(step, restart or "last", source)
    steps, values = done.step, value[done.kept]
    if not len(steps) or bool(np.any(values < 0)):
        return Axis(name, source, np.zeros(0), np.zeros(0))
    since = np.diff(steps, prepend=-1.0 if steps[0] == 0 else 0.0)
    interval = float(np.median(since[1:])) if len(since) > 1 else float(since[0])
    axis = Axis(name, f"sum of {source}", steps, np.zeros(0))
    missing = 0.0
    if steps[0] > 2 * interval + 1:
        missing = (steps[0] - interval) * float(np.mean(values))
        since[0] = interval
        axis.guesses.append(
            f"the log begins at step {steps[0]:g}: {name} before that is estimated by the mean of {source}"
        )
    axis.total = missing + np.cumsum(since * values)
    return axis


def tokens_axis(
    columns: Columns, steps_of: StepsOf, restart: str | None, named: str | None = None
) -> Axis | None:
    """Tokens trained on (prompt and completion), from a count that goes up or from counts of single steps."""
    for field_name in _by_table(columns, "tokens_total", TOKENS_TOTAL, named):
        axis = cumulative("tokens_trained", field_name, *steps_of(field_name), restart)
        if len(axis.step):
            return axis
    parts = _by_table(columns, "tokens_step", TOKENS_STEP, named)
    if parts and canonical(parts[0]).startswith("env/all/total_"):
        parts = [part for part in parts if canonical(part).startswith("env/all/total_")]
    else:
        parts = parts[:1]
    axes = [summed("tokens_trained", part, *steps_of(part), restart) for part in parts]
    if not axes or not all(len(axis.step) for axis in axes):
        return None
    first = axes[0]
    for axis in axes[1:]:
        if len(axis.step) != len(first.step) or not np.array_equal(axis.step, first.step):
            return None
        first.total = first.total + axis.total
        first.source += " + " + axis.source
    return first


def seconds_axis(
    columns: Columns, steps_of: StepsOf, restart: str | None, named: str | None = None
) -> Axis | None:
    """Seconds of training, from a clock that runs on or from the seconds of single steps."""
    for field_name in _by_table(columns, "seconds_step", SECONDS_STEP, named):
        axis = summed("seconds", field_name, *steps_of(field_name), restart)
        if len(axis.step):
            return axis
    for field_name in _by_table(columns, "seconds_total", SECONDS_TOTAL, named):
        axis = cumulative("seconds", field_name, *steps_of(field_name), restart)
        if len(axis.step):
            return axis
    for field_name in _by_table(columns, "seconds_either", (), named):
        step, value = steps_of(field_name)
        rising = len(value) > 1 and bool(np.all(np.diff(value) >= 0))
        axis = (cumulative if rising else summed)("seconds", field_name, step, value, restart)
        axis.guesses.append(
            f"{field_name} is {'a clock that runs on' if rising else 'the seconds of one step'}"
        )
        if len(axis.step):
            return axis
    return _timestamps(columns, steps_of, restart, named)


def _timestamps(columns: Columns, steps_of: StepsOf, restart: str | None, named: str | None) -> Axis | None:
    for field_name in _by_table(columns, "timestamp", (), named):
        step, value = steps_of(field_name)
        if len(value) < 3:
            continue
        done = resolve(step, restart or "last", field_name)
        steps, times = done.step, value[done.kept]
        if len(times) < 3 or bool(np.any(np.diff(times) < 0)):
            continue
        per_step = float(np.median(np.diff(times) / np.diff(steps)))
        begun = float(times[0]) - per_step * max(1.0, float(steps[0]))
        axis = Axis("seconds", field_name, steps, times - begun)
        axis.guesses.append(f"seconds from {field_name}, pauses included, the first step by the median")
        return axis
    return None


def _by_table(columns: Columns, role: str, table: tuple[str, ...], named: str | None) -> list[str]:
    """Stored fields of a role, in the table's order; only the named one, if one is named."""
    if named is not None:
        return [named] if role_of(named) == role and columns.count(named) else []

    def rank(name: str) -> int:
        low = canonical(name)
        return table.index(low) if low in table else len(table)

    return sorted((name for name in columns.having(role) if columns.count(name)), key=rank)
