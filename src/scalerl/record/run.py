"""A loaded run: its header, evaluations and steps, and the curve that the fit takes from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from scalerl.errors import UserError
from scalerl.record.column import distinct
from scalerl.record.points import Floats, PointTable, SetPoints
from scalerl.record.prompts import PerPrompt, binomial_stderr, prompts_hash
from scalerl.record.schema import (
    HELD_OUT,
    TRAIN_LABEL,
    UNSTATED_KIND,
    Evaluation,
    Provenance,
    RunHeader,
)

if TYPE_CHECKING:
    from scalerl.curve.series import Series, StderrKind

AXES = ("device_hours", "flops", "tokens_trained", "custom", "steps", "seconds")
"""Compute axes, in the order in which the default is chosen."""


@dataclass(frozen=True)
class Run:
    """One run; `steps` rows are free-form metrics with `step` and `compute`."""

    path: Path
    header: RunHeader
    evaluations: Sequence[Evaluation]
    steps: tuple[dict[str, Any], ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    timings: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    per_prompt: Mapping[tuple[str, int, int], PerPrompt] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The run's name in its header."""
        return self.header.name

    @property
    def provenance(self) -> Provenance | None:
        """What a reader took for x and y, what it dropped and why; None for scalerl's own records."""
        return self.header.source

    @property
    def sets(self) -> dict[str, int]:
        """Evaluation sets and how many distinct steps each was evaluated at, in order of appearance."""
        if isinstance(self.evaluations, PointTable):
            return {name: len(distinct(p.step)) for name, p in self.evaluations.by_set.items()}
        seen: dict[str, set[int]] = {}
        for evaluation in self.evaluations:
            seen.setdefault(evaluation.set, set()).add(evaluation.step)
        return {name: len(steps) for name, steps in seen.items()}

    def default_set(self) -> str:
        """What a reader chose, else the held-out set with most points, else the train reward."""
        sets = self.sets
        if self.provenance is not None and self.provenance.y in sets:
            return self.provenance.y
        if not sets:
            raise UserError(f"{self.path}: no evaluation in this run yet, so there is no curve")
        return max(sets, key=lambda n: (self.header.label(n) != TRAIN_LABEL, sets[n], n == HELD_OUT))

    def axes(self, set: str | None = None) -> tuple[str, ...]:
        """Axes that every evaluation of the set has, in the order in which the default is chosen."""
        name = set or self.default_set()
        if (points := self._columns(name)) is not None:
            return tuple(a for a in AXES if points.on(a) is not None)
        chosen = self._of_set(name)
        return tuple(a for a in AXES if all(axis_value(e, a) is not None for e in chosen))

    def default_axis(self, set: str | None = None) -> str:
        """What a reader chose, else the first of AXES that every point of the set has."""
        have = self.axes(set)
        chosen = self.provenance.axis if self.provenance is not None else ""
        return chosen if chosen in have else have[0]

    def curve(self, set: str | None = None, axis: str | None = None) -> Series:
        """Pass rate against compute. Repeats of one step are averaged; step 0 gives r0.

        The default set is the one with most points, the default axis the first of AXES that every point has.
        The standard error is the sampling part from per-prompt counts where the record has them, else the
        line's own, else the binomial bound, else None.
        """
        name = set or self.default_set()
        axis = axis or self.default_axis(name)
        if axis not in AXES:
            raise UserError(f"{self.path}: no axis {axis!r}; axes are {', '.join(AXES)}")
        if (columns := self._columns(name)) is not None and columns.repeat is None:
            return self._series(name, axis, *self._column_points(columns, axis))
        rows = self._points(name, axis)
        errors = [error for _, _, error, _ in rows]
        known = [float(error) for error in errors if error is not None]
        complete = bool(errors) and len(known) == len(errors)
        return self._series(
            name,
            axis,
            np.array([x for x, *_ in rows], dtype=np.float64),
            np.array([y for _, y, *_ in rows], dtype=np.float64),
            np.array(known, dtype=np.float64) if complete else None,
            "per-prompt" if {kind for *_, kind in rows} == {"per-prompt"} else "binomial",
            errors[0] if errors else None,
        )

    def _series(
        self,
        name: str,
        axis: str,
        x: Floats,
        rates: Floats,
        errors: Floats | None,
        kind: StderrKind,
        first_error: float | None,
    ) -> Series:
        """Points in growing x as a Series; one at x = 0 gives r0."""
        from scalerl.curve.series import Series

        first = len(x) > 0 and float(x[0]) == 0.0
        return Series(
            compute=x,
            pass_rate=rates,
            stderr=errors,
            axis=self.provenance.x if axis == "custom" and self.provenance is not None else axis,
            name=self.name,
            set=name,
            held_out_hash=self._hash_of(name),
            label=self.header.label(name),
            stderr_kind=None if errors is None else kind,
            r0=float(rates[0]) if first else None,
            r0_stderr=first_error if first else None,
            device_kind=self._device_kind(),
        )

    def _device_kind(self) -> str | None:
        """The kind of device the run took its time on; None where only a count is known, or nothing."""
        devices = self.header.devices
        return None if devices is None or devices.kind == UNSTATED_KIND else devices.kind

    def _hash_of(self, name: str) -> str | None:
        """Which prompts a set has: the header knows the held-out set's, per-prompt counts those of others.

        None where its evaluations asked different prompts: nothing can be compared with it then.
        """
        keys = [] if name == HELD_OUT or not self.per_prompt else [e.key for e in self._of_set(name)]
        asked = {self.per_prompt[key].prompt_ids for key in keys if key in self.per_prompt}
        if not asked:
            return self.header.held_out_hash
        hashes = {prompts_hash(ids) for ids in asked}
        return hashes.pop() if len(hashes) == 1 else None

    def _columns(self, name: str) -> SetPoints | None:
        """The set's points as columns, where the run is a foreign log."""
        if not isinstance(self.evaluations, PointTable):
            return None
        return self.evaluations.by_set.get(name)

    def _of_set(self, set: str | None) -> list[Evaluation]:
        name = set or self.default_set()
        chosen = [e for e in self.evaluations if e.set == name]
        if not chosen:
            known = ", ".join(f"{n} ({count})" for n, count in self.sets.items()) or "none"
            raise UserError(f"{self.path}: no evaluation set {name!r}; the run has: {known}")
        return chosen

    def _points(self, name: str, axis: str) -> list[tuple[float, float, float | None, str]]:
        """(x, mean pass rate, stderr, its kind) in growing x; evaluations at one x are one point.

        An evaluation at step 0 is of the model before training; a train reward is of the step's own batch.
        """
        before_training = self.header.label(name) != TRAIN_LABEL
        at: dict[float, list[Evaluation]] = {}
        for evaluation in self._of_set(name):
            x = 0.0 if evaluation.step == 0 and before_training else axis_value(evaluation, axis)
            if x is None:
                have = ", ".join(self.axes(name))
                raise UserError(f"{self.path}: no {axis} at step {evaluation.step}; this run has {have}")
            at.setdefault(x, []).append(evaluation)
        return [(x, *self._mean(at[x])) for x in sorted(at)]

    def _column_points(
        self, columns: SetPoints, axis: str
    ) -> tuple[Floats, Floats, Floats | None, StderrKind, float | None]:
        """x, pass rate, stderr, its kind and the first stderr, in growing x; a log may have millions."""
        values = columns.on(axis)
        if values is None:
            have = ", ".join(self.axes(columns.name))
            raise UserError(f"{self.path}: no {axis} in this log for {columns.name!r}; it has {have}")
        order = np.argsort(values, kind="stable")
        rates = columns.pass_rate[order]
        if columns.samples is None:
            return values[order], rates, None, "binomial", None
        errors = np.array(list(map(binomial_stderr, rates.tolist(), columns.samples[order].tolist())))
        return values[order], rates, errors, "binomial", float(errors[0]) if len(errors) else None

    def _mean(self, group: list[Evaluation]) -> tuple[float, float | None, str]:
        """Mean pass rate of evaluations of one policy, its standard error, and how that is known."""
        errors = [self._stderr(e) for e in group]
        kinds = {kind for _, kind in errors}
        rate = math.fsum(e.pass_rate for e in group) / len(group)
        known = [error for error, _ in errors if error is not None]
        if len(known) < len(errors):
            return rate, None, "none"
        total = math.sqrt(math.fsum(error * error for error in known)) / len(group)
        return rate, total, "per-prompt" if kinds == {"per-prompt"} else "binomial"

    def _stderr(self, evaluation: Evaluation) -> tuple[float | None, str]:
        counts = self.per_prompt.get(evaluation.key)
        if counts is not None and (error := counts.stderr()) is not None:
            return error, "per-prompt"
        if evaluation.stderr is not None:
            return evaluation.stderr, "per-prompt"
        if evaluation.samples:
            return binomial_stderr(evaluation.pass_rate, evaluation.samples), "binomial"
        return None, "none"

    def to_frame(self, what: str = "evals") -> Any:
        """`evals`, `steps` or `events` as a pandas (else polars) data frame; compute is flattened."""
        rows: list[dict[str, Any]] = {
            "evals": [e.model_dump() for e in self.evaluations],
            "steps": [dict(row) for row in self.steps],
            "events": [dict(row) for row in self.events],
        }.get(what) or []
        if what not in ("evals", "steps", "events"):
            raise UserError(f"to_frame: {what!r} isn't one of evals, steps, events")
        flat = [{**row.pop("compute", {}), **row} for row in rows]
        try:
            import pandas as pd
        except ImportError:
            try:
                import polars as pl  # type: ignore[import-not-found,unused-ignore]
            except ImportError:
                raise UserError("to_frame needs pandas or polars; pip install pandas") from None
            return pl.DataFrame(flat)
        return pd.DataFrame(flat)

    def difference(self, other: Run, events: bool = True) -> str | None:
        """The first difference in content as text, or None. Paths, timings and start times don't count."""
        mine, theirs = (run.header.model_dump(exclude={"started"}) for run in (self, other))
        for name in mine:
            if mine[name] != theirs[name]:
                return f"header field {name}: {mine[name]!r} against {theirs[name]!r}"
        tables: list[tuple[str, Sequence[Any], Sequence[Any]]] = [
            ("evaluation", self.evaluations, other.evaluations),
            ("step row", self.steps, other.steps),
            *([("event", self.events, other.events)] if events else []),
        ]
        for what, left, right in tables:
            for index, (a, b) in enumerate(zip(left, right, strict=False)):
                if a != b:
                    return f"{what} {index}: {_unlike(a, b)}"
            if len(left) != len(right):
                return f"{len(left)} against {len(right)} {what}s"
        if dict(self.per_prompt) != dict(other.per_prompt):
            return "per-prompt counts differ"
        return None

    def same_as(self, other: Run, events: bool = True) -> bool:
        """Whether two records hold the same, timings apart; `difference` says what differs."""
        return self.difference(other, events) is None


def axis_value(evaluation: Evaluation, axis: str) -> float | None:
    """The evaluation's place on a compute axis, or None where it isn't known."""
    if axis == "steps":
        return float(evaluation.step)
    value = getattr(evaluation.compute, axis)
    return None if value is None else float(value)


def _unlike(a: Any, b: Any) -> str:
    left = a if isinstance(a, dict) else a.model_dump()
    right = b if isinstance(b, dict) else b.model_dump()
    for key in [*left, *(k for k in right if k not in left)]:
        if left.get(key) != right.get(key):
            return f"{key}: {left.get(key)!r} against {right.get(key)!r}"
    return f"{a!r} against {b!r}"
