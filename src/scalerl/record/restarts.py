"""Steps that repeat or go back: the last segment wins; a start over that ends early is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from scalerl.record.choice import ChoiceNeeded
from scalerl.record.options import RESTARTS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_MOST_SEGMENTS = 1000


@dataclass(frozen=True)
class Resolved:
    """Points in strictly growing step: `kept` [n] indexes the input, `step` [n] counts on where appended."""

    kept: Ints
    step: Floats
    notes: tuple[str, ...]
    dropped: dict[str, int]


def resolve(step: Floats, restart: str | None, where: str) -> Resolved:
    """Order points by step. `step` [m] is in the order of the file.

    A step that goes back begins a new segment. One that resumes within what is there supersedes everything
    from its first step on. One that starts over from the beginning replaces all, if it gets as far; if it
    doesn't, `restart` says whether the last segment counts ('last') or continues the one before ('append'):
    ChoiceNeeded without it.
    """
    if bool(np.all(step[1:] > step[:-1])):  # the common case, without the copies of the others
        return Resolved(np.arange(len(step)), step, (), {})
    if len(step) > 2 and bool(np.all(np.diff(step) < 0)):
        order = np.arange(len(step))[::-1]
        return Resolved(order, step[order], ("rows are in falling order of step: read backwards",), {})
    cuts = [0, *(np.flatnonzero(np.diff(step) < 0) + 1).tolist(), len(step)]
    if len(cuts) > _MOST_SEGMENTS:
        return _sorted(step)
    segments = [np.arange(a, b) for a, b in pairwise(cuts) if b > a]
    kept, places = np.zeros(0, np.int64), np.zeros(0)
    notes: list[str] = []
    superseded = 0
    for segment in segments:
        values = step[segment]
        if len(kept) and values[0] <= places[0] and restart != "last":
            values, note = _start_over(places, values, restart, where)
            notes += note
        before = places < values[0]
        if len(kept) and not bool(before.all()):
            what = "starts over" if values[0] <= places[0] else "resumes"
            notes.append(
                f"the log {what} at step {values[0]:g} after {places[-1]:g}: the last segment counts"
            )
        superseded += int(np.sum(~before))
        kept, places = np.concatenate([kept[before], segment]), np.concatenate([places[before], values])
    last = np.append(np.diff(places) > 0, True) if len(places) else np.zeros(0, bool)
    dropped = {
        "superseded after a restart": superseded,
        "step repeated, the last one counts": int(np.sum(~last)),
    }
    return Resolved(kept[last], places[last], _short(notes), {k: v for k, v in dropped.items() if v})


def _start_over(places: Floats, values: Floats, restart: str | None, where: str) -> tuple[Floats, list[str]]:
    """Steps of a segment that starts over: as they are, or counting on; asked where it isn't clear."""
    begin, end = float(values[0]), float(values[-1])
    if restart == "append":
        offset = float(places[-1]) + (1.0 if begin == 0 else 0.0) - (begin if begin > 1 else 0.0)
        return values + offset, [f"steps that start over at {begin:g} go on counting from {begin + offset:g}"]
    if end < places[-1]:
        raise ChoiceNeeded(
            f"{where}: the steps start over at {begin:g} after {places[-1]:g} and end at {end:g}: say "
            "--restart last (take only what comes after) or --restart append (its steps go on counting)",
            "restart",
            RESTARTS,
        )
    return values, []


def _sorted(step: Floats) -> Resolved:
    """Steps in no order at all (many writers): sorted; of equal ones the last in the file counts."""
    order = np.argsort(step, kind="stable")
    places = step[order]
    last = np.append(np.diff(places) > 0, True)
    dropped = {"step repeated, the last one counts": int(np.sum(~last))}
    note = "steps go back and forth all the time: sorted"
    return Resolved(order[last], places[last], (note,), {k: v for k, v in dropped.items() if v})


def _short(notes: list[str]) -> tuple[str, ...]:
    return tuple(notes) if len(notes) <= 3 else (*notes[-3:], f"{len(notes)} restarts in all")
