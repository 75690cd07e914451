"""Steps that repeat or go back: the last segment wins; a start over that ends early is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from scalerl.record.choice import ChoiceNeeded

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
RESTARTS = ("last", "append")
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
        begin, end = float(values[0]), float(values[-1])
        if not len(kept):
            kept, places = segment, values
            continue
        if begin <= places[0] and end < places[-1] and restart is None:
            raise ChoiceNeeded(
                f"{where}: the steps start over at {begin:g} after {places[-1]:g} and end at {end:g}: say "
                "--restart last (take only what comes after) or --restart append (its steps go on counting)",
                "restart",
                RESTARTS,
            )
        if begin <= places[0] and restart == "append":
            offset = float(places[-1]) + (1.0 if begin == 0 else 0.0) - (begin if begin > 1 else 0.0)
            kept, places = np.concatenate([kept, segment]), np.concatenate([places, values + offset])
            notes.append(
                f"steps that start over at {begin:g} go on counting from {places[len(kept) - len(segment)]:g}"
            )
            continue
        keep = places < begin
        superseded += int(np.sum(~keep))
        what = "starts over" if begin <= places[0] else "resumes"
        notes.append(f"the log {what} at step {begin:g} after {places[-1]:g}: the last segment counts")
        kept, places = np.concatenate([kept[keep], segment]), np.concatenate([places[keep], values])
    last = np.append(np.diff(places) > 0, True) if len(places) else np.zeros(0, bool)
    dropped = {
        "superseded after a restart": superseded,
        "step repeated, the last one counts": int(np.sum(~last)),
    }
    return Resolved(kept[last], places[last], _short(notes), {k: v for k, v in dropped.items() if v})


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
