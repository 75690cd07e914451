"""Placing a log's points on compute axes, and which axis the curve is on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scalerl.errors import UserError
from scalerl.record import axes as ax
from scalerl.record.assembly import INDEX, Assembly
from scalerl.record.axes import Axis
from scalerl.record.choice import listing
from scalerl.record.column import Floats, Ints, look_up
from scalerl.record.columns import Columns
from scalerl.record.fields import role_of
from scalerl.record.points import SetPoints
from scalerl.record.schema import Devices

_KNOWN_X = (
    "step", "tokens_total", "tokens_step", "seconds_total", "seconds_step", "seconds_either", "timestamp",
    "device_hours", "flops",
)  # fmt: skip


_AXIS_OF_ROLE = {
    "tokens": "tokens_trained",
    "seconds": "seconds",
    "timestamp": "seconds",
    "device": "device_hours",
    "flops": "flops",
}


def axes_of(work: Assembly) -> tuple[list[Axis], Devices | None]:
    """The compute axes that the log allows, in the order in which the default is chosen."""
    options, columns = work.options, work.columns
    named = work.x if work.x != INDEX else None
    role = role_of(named) if named else None
    tokens = ax.tokens_axis(columns, work.steps_of, options.restart, named if _is(role, "tokens") else None)
    seconds = ax.seconds_axis(
        columns, work.steps_of, options.restart, named if _is(role, "seconds", "timestamp") else None
    )
    devices = ax.parse_devices(options.devices) if options.devices else None
    _warn_of_lost_tokens(work, tokens)
    found = [_device_hours(work, seconds, devices), _flops(work, tokens), tokens, seconds]
    return [axis for axis in found if axis is not None], devices


def _warn_of_lost_tokens(work: Assembly, tokens: Axis | None) -> None:
    """A count of tokens that goes back (a restart began it anew) would have been the axis."""
    counts = [*work.columns.having("tokens_total"), *work.columns.having("tokens_step")]
    if tokens is None and counts and work.options.x is None:
        work.warnings.append(f"{counts[0]} goes back or is negative: not taken for compute")


def _device_hours(work: Assembly, seconds: Axis | None, devices: Devices | None) -> Axis | None:
    for name in work.columns.having("device_hours"):
        axis = ax.cumulative("device_hours", name, *work.steps_of(name), work.options.restart)
        if len(axis.step):
            return axis
    if devices is None:
        return None
    if seconds is None:
        raise UserError(
            f"{work.where}: --devices needs seconds per step, and no field of this log is one; "
            "leave --devices away for tokens or steps"
        )
    source = f"{seconds.source} x {devices.total} devices / 3600"
    return seconds.times(devices.total / 3600.0, "device_hours", source)


def _flops(work: Assembly, tokens: Axis | None) -> Axis | None:
    if work.options.params is None:
        for name in work.columns.having("flops"):
            step, value = work.steps_of(name)
            if len(value) and float(np.min(value)) > 0:
                return ax.cumulative("flops", name, step, value, work.options.restart)
        return None
    if not work.options.params > 0:
        raise UserError(f"--params {work.options.params:g}: the model's parameters, as 8e9")
    if tokens is None:
        raise UserError(f"{work.where}: --params needs token counts, and no field of this log is one")
    factor = ax.FLOPS_PER_TOKEN * work.options.params
    axis = tokens.times(factor, "flops", f"8 x {work.options.params:g} x {tokens.source}")
    axis.guesses.append(
        "FLOPs = 6 N tokens trained + 2 N tokens generated, both taken as all tokens of the log"
    )
    return axis


def _is(role: str | None, *starts: str) -> bool:
    return role is not None and role.startswith(starts)


def set_points(
    work: Assembly,
    name: str,
    steps: Floats,
    rates: Floats,
    rows: Ints,
    repeat: Ints | None,
    axes: list[Axis],
) -> SetPoints:
    """One set's points on all axes. Steps that aren't whole numbers are counted 1, 2, ... instead."""
    whole = bool(np.all(steps == np.floor(steps))) and float(np.abs(steps).max()) < 2**53
    counted = steps.astype(np.int64) if whole else np.arange(1, len(steps) + 1)
    placed: dict[str, Floats] = {}
    for axis in axes:
        totals = axis.at(steps)
        if role_of(name) != "train":
            totals = np.where(steps == 0, 0.0, totals)
        if axis.name == "tokens_trained":
            totals = _counts(totals)
        placed[axis.name] = totals
    samples = _samples(work.columns, name, rows)
    if (custom := _custom(work, rows)) is not None:
        placed["custom"] = custom
    elif not whole:
        placed["custom"] = steps
    return SetPoints(name, counted, rates, placed, samples, repeat)


def _counts(totals: Floats) -> Floats:
    """Whole numbers, as a record holds tokens; NaN beyond what it can hold."""
    whole = np.rint(totals)
    return np.where(whole < 2.0**63, whole, np.nan)


def _custom(work: Assembly, rows: Ints) -> Floats | None:
    """The user's own x field at the points, where it is none of the known kinds."""
    name = work.x
    if name is None or name == INDEX or role_of(name) in _KNOWN_X:
        return None
    if not work.columns.count(name):
        known = listing(list(work.columns.names), 12)
        raise UserError(f"{work.where}: no number in a field {name!r} for x; fields: {known}")
    found = look_up(rows, *work.columns.column(name))
    if bool(np.any(np.isnan(found))) or bool(np.any(found < 0)):
        raise UserError(
            f"{work.where}: x field {name!r} is missing or negative at some points of {work.chosen.y}"
        )
    return found


def _samples(columns: Columns, name: str, rows: Ints) -> Ints | None:
    """Completions judged at each point, where a field beside an evaluation says so."""
    if role_of(name) != "held_out":
        return None
    for field_name in columns.having("samples"):
        counts = look_up(rows, *columns.column(field_name))
        if bool(np.all((counts >= 1) & (counts < 1e12))):
            return counts.astype(np.int64)
    return None


def default_axis(work: Assembly, points: SetPoints, axes: list[Axis]) -> tuple[SetPoints, str, str]:
    """The axis of the curve and its source: the user's x, else the first that grows, else steps."""
    usable: dict[str, Axis] = {}
    placed = dict(points.axes)
    for axis in axes:
        totals = placed[axis.name]
        distinct = points.step if points.repeat is not None else None
        good = bool(np.all(np.isfinite(totals))) and grows(totals, distinct)
        if good:
            usable[axis.name] = axis
        else:
            del placed[axis.name]
            work.warnings.append(
                f"{axis.source} isn't known or doesn't grow at every point: {axis.name} left out"
            )
    points = replace(points, axes=placed)
    name = _wanted_axis(work, usable, points)
    if name in usable:
        work.guesses += usable[name].guesses
        return points, name, usable[name].source
    if name == "custom":
        return points, name, work.x if work.x and work.x != INDEX else work.stepped[0]
    return points, "steps", work.stepped[0]


def _wanted_axis(work: Assembly, usable: dict[str, Axis], points: SetPoints) -> str:
    options = work.options
    asked = [name for name, said in (("device_hours", options.devices), ("flops", options.params)) if said]
    for name in asked:
        if name not in usable:
            raise UserError(
                f"{work.where}: no {name} at every point of {work.chosen.y}; leave the option away"
            )
    if asked:
        return asked[0]
    if "custom" in points.axes:
        return "custom"
    role = role_of(work.x) if work.x and work.x != INDEX else None
    if work.x == INDEX or role == "step":
        return "steps"
    for start, name in _AXIS_OF_ROLE.items():
        if _is(role, start):
            if name not in usable:
                raise UserError(f"{work.where}: {work.x} doesn't grow at every point; choose another --x")
            return name
    return next((name for name in ("device_hours", "flops", "tokens_trained") if name in usable), "steps")


def grows(totals: Floats, step: Ints | None) -> bool:
    """Strictly increasing; where evaluations repeat, over distinct steps."""
    values = totals if step is None else totals[np.append(np.diff(step) > 0, True)]
    return len(values) == 0 or (float(values[0]) >= 0 and bool(np.all(np.diff(values) > 0)))
